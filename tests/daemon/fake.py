"""A prover that takes no time, or as long as it is told; and a daemon of it in a thread."""
from __future__ import annotations

import contextlib
import hashlib
import itertools
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import grpc

from cuzk_cli.daemon import address, server
from cuzk_cli.daemon.client import Client
from cuzk_cli.daemon.control import Facts
from cuzk_cli.daemon.roots import Roots
from cuzk_cli.errors import Exit, fail
from cuzk_cli.protocol.table import parse_size
from cuzk_cli.status import Tracker


def proof_of(request) -> bytes:
    """192 bytes that tell what was asked for."""
    return hashlib.sha512(repr(request).encode()).digest() * 3


class Ticket:
    def __init__(self, prover, request, number: int):
        self.request, self.submitted, self.job_id, self.result = request, time.time(), None, Future()
        self._prover, self._number, self._lock, self._ended = prover, number, threading.Lock(), False

    def delivered(self) -> None:
        self._prover.delivered.append(self.request)

    def end(self, **more) -> bool:
        with self._lock:
            if self._ended:
                return False
            self._ended = True
        good = not more
        self.result.set_result({
            "kind": self.request.kind, "job_id": self.job_id, "ok": good, "exit": 0, "errors": [], "warnings": [],
            "proof": proof_of(self.request).hex() if good else None, "verified": good, "reused": False,
            "timings": {"total_ms": 12.5, "synthesis_ms": 3.2, "srs_load_ms": None}, **more})
        return True

    def cancel(self, reason: str) -> bool:
        error = fail(Exit.SIGINT, "prove", actual=reason)
        ended = self.end(ok=False, exit=130, errors=[p.as_dict() for p in error.problems])
        self._prover.cancelled += ended
        return ended

    def run(self) -> None:
        """Two at a time, both on worker 0; worker 1 never has work."""
        self.job_id = f"snap-x-x-{self._number:012}"
        tracker = self._prover.tracker
        tracker.job_started(self.job_id, self.request.kind, [0])
        epoch = tracker.partition_gpu_start(self.job_id, 0, 0)
        self._prover.going.wait()
        good = self._prover.fails(self.request) is None
        tracker.partition_gpu_end(epoch, "done" if good else "failed", 1.0)
        tracker.job_finished(self.job_id, good)
        if good:
            self.end()
        else:
            error = fail(Exit.INPUT, "open", "/sealed", "a file", self._prover.fails(self.request))
            self.end(ok=False, exit=10, errors=[p.as_dict() for p in error.problems])


class Prover:
    """Proves at once while `going` is set. fails: why a request does, or None."""

    def __init__(self, tracker):
        self.tracker, self.going, self.fails = tracker, threading.Event(), lambda request: None
        self.going.set()
        self.requests, self.given, self.delivered, self.cancelled, self.closed = [], [], [], 0, False
        self.keys: dict = {}
        self._threads, self._numbers = ThreadPoolExecutor(2), itertools.count()
        tracker.add_workers([(0, 0), (1, 0)])

    def submit(self, request, priority=None, deadline=None, held=False) -> Ticket:
        self.requests.append(request)
        self.given.append((priority, deadline))
        ticket = Ticket(self, request, next(self._numbers))
        self._threads.submit(ticket.run)
        return ticket

    def preload(self, kind, size) -> float:
        if kind == "porep":
            raise fail(Exit.PARAMETERS, "find parameters", "/p", "a file", "none")
        self.keys[kind, size] = 1000
        return 17.4

    def evict(self, kind, size) -> bool:
        return self.keys.pop((kind, size), None) is not None

    def loaded(self) -> list:
        return [(kind, size, f"/p/{kind}", held) for (kind, size), held in self.keys.items()]

    def close(self) -> None:
        self.closed = True
        self.going.set()


class Running:
    """A daemon that answers."""

    def __init__(self, daemon, prover, thread):
        self.daemon, self.prover, self.thread = daemon, prover, thread
        self.address = address.parse(daemon.address)

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.address.target, [("grpc.max_send_message_length", 1 << 30)])

    def client(self) -> Client:
        return Client(self.address)


@contextlib.contextmanager
def running(storage=(), listen: str | None = None, params: str = "/params", **more):
    """A Running daemon with a fake prover."""
    prover = Prover(Tracker())
    with tempfile.TemporaryDirectory(prefix="cuzk") as folder:     # a socket's path must be short
        where = address.parse(listen or f"unix:{folder}/d/s")
        facts = Facts(params, False, "cpu")
        daemon = server.Daemon(where, lambda: prover, prover.tracker, Roots(storage), facts, **more)
        errors = []

        def run() -> None:
            try:
                daemon.run()
            except BaseException as error:
                errors.append(error)
                daemon.started.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert daemon.started.wait(10)
        if errors:
            raise errors[0]
        try:
            yield Running(daemon, prover, thread)
        finally:
            prover.going.set()
            daemon.stop()
            thread.join(10)
            assert not thread.is_alive() and not errors and prover.closed


SIZE = parse_size("2KiB")
