"""The synthesis pool: spawned processes without JAX that turn vanilla data into assignments.

One thread here stands for one process there, which is started when there is work for it. A process that dies (a signal,
the OOM killer) is named in a warning, started anew once per pool, and its partition is synthesised again; a second death
fails the partition.
"""
from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Callable, NamedTuple

from ..errors import CuzkError, Exit, fail
from ..faults import as_error, log
from .shared import attach
from .worker import receive, send


class Synthesised(NamedTuple):
    """An assignment in shared memory and what it took."""

    assignment: object      # circuits.Assignment, read-only views
    milliseconds: float     # inside the worker: witness, row values and the copy to shared memory


class _Gone(Exception):
    """The other end of a worker's socket is closed."""


class _Process:
    """One worker process and our end of its socket."""

    MODULE = "cuzk_cli.prove.worker"

    def __init__(self):
        ours, theirs = socket.socketpair()
        # -P: the folder the user stands in must not shadow a module
        command = [sys.executable, "-P", "-m", self.MODULE, str(theirs.fileno())]
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        theirs.close()
        self.socket = ours

    def stop(self) -> None:
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class SynthesisPool:
    """`workers` processes; tasks are taken in the order of submission."""

    def __init__(self, workers: int, warn: Callable[[str], None] = lambda text: None):
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._warn, self._lock, self._rebuilt, self._closed = warn, threading.Lock(), False, False
        self._processes: list[_Process] = []
        self._threads = [threading.Thread(target=self._serve, args=(i == 0,), daemon=True) for i in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, kind: str, sector_size: int, witness, started: Callable[[], None] = lambda: None) -> Future:
        """Synthesise one partition; `started` is called when a worker takes it. The future gives a Synthesised."""
        future: Future = Future()
        self._tasks.put(((kind, sector_size, witness), started, future))
        return future

    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        with self._lock:
            return [p.process.pid for p in self._processes if p.process.poll() is None]

    def close(self) -> None:
        """Stop all workers at once; what they work on is lost."""
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        for _ in self._threads:
            self._tasks.put(None)
        for process in processes:
            process.stop()

    def _start(self) -> _Process:
        with self._lock:
            if self._closed:
                raise fail(Exit.INTERNAL, "synthesis stopped")
            process = _Process()
            self._processes.append(process)
            return process

    def _serve(self, eager: bool) -> None:
        """One worker at a time; it is started with the first task, or at once where that is not worth waiting for."""
        process = None
        if eager:
            try:
                process = self._start()
            except (CuzkError, OSError):
                pass                # it comes again with the first task, which has somebody to tell
        while (item := self._tasks.get()) is not None:
            task, started, future = item
            if future.set_running_or_notify_cancel():
                started()
                process = self._synthesise(process, task, future)

    def _synthesise(self, process: _Process | None, task, future: Future) -> _Process | None:
        """Answer one task; the worker that is there for the next one."""
        while True:
            try:
                if process is None:
                    process = self._start()
                future.set_result(self._ask(process, task))
            except _Gone:
                gone, process = process, None
                if self._bury(gone, future):
                    continue
            except Exception as error:      # whatever it is, the thread goes on and somebody is told
                future.set_exception(as_error(f"synthesis of {task[0]}", error))
            return process

    def _ask(self, process: _Process, task) -> Synthesised:
        try:
            send(process.socket, task)
            answer, fd = receive(process.socket)
        except (EOFError, OSError):
            raise _Gone from None
        if answer[0] == "done":
            if fd is None:          # the system had no descriptor for us
                raise fail(Exit.RESOURCES, f"synthesis of {task[0]}", None, "an open file for its memory",
                           "too many open files")
            return Synthesised(attach(fd, *answer[1:3]), answer[3])
        if answer[0] == "refused":
            raise answer[1]
        raise fail(Exit.INTERNAL, f"synthesis of {task[0]} failed", actual=answer[1].strip().splitlines()[-1],
                   hint=log(answer[1]))

    def _bury(self, process: _Process, future: Future) -> bool:
        """A worker died: name it, and say whether its task is to be tried again; else the future has the reason."""
        process.socket.close()
        try:
            code = process.process.wait(5)
        except subprocess.TimeoutExpired:   # it lives, but does not talk
            process.process.kill()
            code = process.process.wait()
        how = f"signal {-code} ({_signal_name(-code)})" if code < 0 else f"exit code {code}"
        with self._lock:
            self._processes.remove(process)
            first, self._rebuilt = not self._rebuilt, True
            closed = self._closed
        text = f"synthesis worker {process.process.pid} ended by {how}"
        if closed:
            future.set_exception(fail(Exit.INTERNAL, "synthesis stopped"))
        elif not first:
            killed = code == -signal.SIGKILL
            future.set_exception(fail(
                Exit.RESOURCES if killed else Exit.INTERNAL, f"{text}, a second time",
                hint="the system may have run out of memory" if killed else None,
            ))
        else:
            self._warn(f"{text}; the pool is rebuilt and the partition synthesised again")
        return first and not closed


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal without a name"
