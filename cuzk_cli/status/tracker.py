"""What the prover reports its work to: the rules of `state`, made safe for threads and written to the status file.

A call that opens or closes an epoch, changes a partition's state or begins or ends a job returns when the file has it.
A heartbeat writes in between, so that a reader can tell a process that hangs from one that works.
"""
from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from typing import Callable

from .. import __version__
from . import process
from .snapshot import rfc3339, snapshot
from .state import Moment, State, Worker

SCHEMA_VERSION = 1
HEARTBEAT_SECONDS = 2.0
LONGEST = 2000              # characters of an error that are shown


class Tracker:
    """Thread-safe. `writer` has `write(document)`; None keeps the state in memory.

    clock: seconds since the epoch, may go back. monotonic: seconds, for durations. Times given in are milliseconds of
    the caller's own measure; one that is no finite number, or 2^53 and more, counts as unknown, one below zero as zero.
    """

    def __init__(self, writer=None, clock: Callable[[], float] = time.time,
                 monotonic: Callable[[], float] = time.monotonic):
        self._writer, self._clock, self._monotonic = writer, clock, monotonic
        self._lock = threading.Lock()           # of the state: never held while a file is written
        self._writing = threading.Lock()        # what is written last is newest
        self._state = State()
        self._latest = monotonic()
        self._began = self._now()
        self._life = "running"
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None
        self._loading = self._blocked = list
        pid = os.getpid()
        self._identity = {"run_id": uuid.uuid4().hex, "pid": pid, "pid_start": process.start_time(pid),
                          "boot_id": process.boot_id(), "host": socket.gethostname(), "version": __version__}

    def _now(self) -> Moment:
        """The monotonic clock is held to its name, whatever stands behind it."""
        self._latest = max(self._latest, self._monotonic())
        return Moment(self._latest, self._clock())

    # ---- life of the process
    def start(self) -> None:
        """First write; the heartbeat begins."""
        self._write()
        if self._writer is not None and self._heartbeat is None:
            self._heartbeat = threading.Thread(target=self._beat, name="status-heartbeat", daemon=True)
            self._heartbeat.start()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self._write()

    def close(self, state: str = "ended") -> None:
        """Last write, with the process's state as given; the heartbeat ends. May be called again.

        What is reported later is not written: a process that ends would leave its file's replacement half made.
        """
        self._stop.set()
        with self._lock:
            self._life = state
        self._write(last=True)

    def _write(self, last: bool = False) -> None:
        if self._writer is not None:
            with self._writing:
                if last or not self._stop.is_set():
                    self._writer.write(self.snapshot())

    # ---- what is there
    def observe(self, loading: Callable[[], list[dict]], blocked: Callable[[], list[dict]]) -> None:
        """Where the document takes what is not a job yet from: requests that are read, and reads that hang."""
        self._loading, self._blocked = loading, blocked

    def add_workers(self, workers: list[tuple[int, int]]) -> None:
        """workers: (worker_id, gpu_ordinal). Those that are known stay as they are."""
        with self._lock:
            now = self._now()
            for number, ordinal in workers:
                self._state.workers.setdefault(int(number), Worker(int(ordinal), now))

    def set_limits(self, max_concurrent: int) -> None:
        """Partitions that may be synthesised at once."""
        with self._lock:
            self._state.limit = int(max_concurrent)

    # ---- jobs
    def job_started(self, job_id: str, proof_kind: str, partitions: list[int]) -> None:
        """A job whose partitions are pending now. It replaces one of the same id."""
        with self._lock:
            self._state.job_started(job_id, proof_kind, [int(k) for k in partitions], self._now())
        self._write()

    def job_finished(self, job_id: str, ok: bool, error: str | None = None, code: str | None = None,
                     exit: int | None = None) -> None:
        """Counted once. A failure becomes `last_error`: `code` a word, `exit` a number."""
        with self._lock:
            self._state.job_finished(job_id, bool(ok), _text(error), code, exit, self._now())
        self._write()

    def waiting(self, job_id: str, waiting_for: dict | None) -> None:
        """What a job waits for: {kind, need, have}; None when it no longer does. The next write shows it."""
        with self._lock:
            self._state.waiting(job_id, _plain(waiting_for), self._now())

    def progress(self, job_id: str) -> None:
        """The job got on. The next write shows it."""
        with self._lock:
            self._state.progress(job_id, self._now())

    # ---- partitions
    def partition_synthesis_start(self, job_id: str, index: int) -> None:
        """Ignored and counted for a partition that is on a device or done."""
        with self._lock:
            self._state.synthesis_start(job_id, index, self._now())
        self._write()

    def partition_synthesis_end(self, job_id: str, index: int, ok: bool, ms: float | None) -> None:
        """ms None: the time since its start. Ignored and counted for one neither pending nor being synthesised."""
        with self._lock:
            self._state.synthesis_end(job_id, index, ok, _number(ms), self._now())
        self._write()

    def partition_resumed(self, job_id: str, index: int) -> None:
        """A pending partition is done by an earlier run."""
        with self._lock:
            self._state.resumed(job_id, index, self._now())
        self._write()

    def partition_gpu_start(self, job_id: str, partition: int | None, worker_id: int,
                            partitions: list[int] | None = None) -> int:
        """Open an epoch, and give its number. partition None: `partitions` (None: all of the job) as one piece of work.

        The job, the partition and the worker need not be known.
        """
        with self._lock:
            epoch = self._state.open_epoch(job_id, None if partition is None else int(partition), int(worker_id),
                                           None if partitions is None else [int(k) for k in partitions], self._now())
        self._write()
        return epoch

    def partition_gpu_end(self, epoch: int, outcome: str, gpu_ms: float | None = None,
                          others: dict[int, str] | None = None) -> None:
        """Close an epoch: done, failed, or retry (to be assigned again). Raises ValueError for another outcome.

        gpu_ms: device work; None: the time since its start. others: partitions of the epoch with another outcome.
        """
        with self._lock:
            self._state.close_epoch(epoch, outcome, _number(gpu_ms), dict(others or {}), self._now())
        self._write()

    def partition_failed(self, job_id: str, index: int, error: str) -> None:
        """Fail a partition, with the reason that is shown; one that is done stays so. It closes no epoch."""
        with self._lock:
            self._state.partition_failed(job_id, index, _text(error), self._now())
        self._write()

    # ---- what is shown
    def snapshot(self) -> dict:
        """The document of this process, of plain values that the caller owns: see `schema.DOCUMENT`."""
        loading, blocked = self._loading(), self._blocked()
        with self._lock:
            now = self._now()
            return {**snapshot(self._state, self._began, now),
                    "loading": loading, "blocked": blocked, "schema_version": SCHEMA_VERSION, "state": self._life,
                    **self._identity, "written_at": rfc3339(now.wall), "written_at_unix": round(now.wall, 3),
                    "written_at_boottime": process.boot_time(), "heartbeat_seconds": HEARTBEAT_SECONDS}


def _number(ms: float | None) -> float | None:
    return max(float(ms), 0.0) if ms is not None and _shown(ms) else None


def _shown(number: int | float) -> bool:
    """A number that JSON's readers get as it is."""
    return abs(number) < 2**53      # false for NaN and infinities


def _text(error: str | None) -> str | None:
    return None if error is None else str(error)[:LONGEST]


def _plain(waiting_for: dict | None) -> dict | None:
    """A copy that JSON can hold: kind, need, have, then whatever else."""
    def value(v):
        if isinstance(v, bool) or v is None:
            return v
        if isinstance(v, (int, float)):
            return v if _shown(v) else None
        return str(v)[:LONGEST]

    return None if waiting_for is None else {"kind": None, "need": None, "have": None,
                                             **{str(k): value(v) for k, v in waiting_for.items()}}
