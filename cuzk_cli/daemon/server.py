"""The daemon's server: what listens, what of a client's message is read, and how it all ends.

A request is read only in one of a few slots, at most `MESSAGE` bytes of it and within some seconds, so that clients that
send much, slowly or nothing take bounded memory and time. To a client every call is a unary one.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from ..errors import CuzkError, Exit, fail
from ..faults import as_error
from ..prove.joblock import FileLock
from .address import Address, default_socket
from .control import Control, Facts
from .jobs import Jobs, Refused
from .proto import Method, control, proving
from .roots import Roots
from .service import Device, ProvingEngine

MESSAGE = 128 << 20         # bytes; a WindowPoSt of 2349 sectors has 59 million
CALLS = 4096                # at a time, most of which wait
GRACE = 0.5                 # seconds for answers when the daemon stops
_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE), ("grpc.max_send_message_length", MESSAGE),
    ("grpc.so_reuseport", 0),                       # a second daemon on the same port must fail
    ("grpc.server_handshake_timeout_ms", 10_000), ("grpc.max_concurrent_streams", CALLS),
    ("grpc.keepalive_time_ms", 60_000), ("grpc.keepalive_timeout_ms", 20_000),      # clients that vanished
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000), ("grpc.keepalive_permit_without_calls", 1),
]


@dataclass(frozen=True)
class Reading:
    """How requests of some calls are read."""

    slots: int          # at a time
    seconds: float
    bytes: int


LARGE = Reading(4, 120.0, MESSAGE)
SMALL = Reading(32, 5.0, 1 << 16)
_LARGE = {"SubmitProof", "Prove", "Submit"}


class Daemon:
    """One `run`; `stop` from any thread.

    make_prover: gives a prove.prover.Prover, when the address is ours. devices, memory_limit: see ProvingEngine.
    tell: gets a line about each job that ends.
    """

    def __init__(self, address: Address, make_prover: Callable, tracker, roots: Roots, facts: Facts,
                 devices: Callable[[], dict[int, Device]] = dict, memory_limit: Callable[[], int] = lambda: 0,
                 tell: Callable[[str], None] = lambda text: None):
        self._address, self._make_prover, self._tracker, self._roots = address, make_prover, tracker, roots
        self._facts, self._devices, self._memory_limit, self._tell = facts, devices, memory_limit, tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self.started, self.ended = threading.Event(), threading.Event()
        self.address = str(address)     # with the port that was got, when `started` is set
        self.lost = 0                   # jobs that were not finished, when `ended` is set

    def run(self) -> None:
        """Serve until `stop` or a drain. Raises CuzkError: BUSY, OUTPUT for the address, and what making the prover raises.
        """
        try:
            with _claimed(self._address):
                prover = self._make_prover()
                try:
                    asyncio.run(self._serve(prover))
                finally:
                    prover.close()
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Everybody who waits is told, and `run` returns; also when it has not begun."""
        self._stopping = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):         # it has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _serve(self, prover) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopping:
            return
        submitting, others = ThreadPoolExecutor(1, "submit"), ThreadPoolExecutor(4, "calls")
        apart = lambda function, *arguments: self._loop.run_in_executor(others, function, *arguments)
        jobs = Jobs(prover, submitting, self._tell)
        engine = ProvingEngine(jobs, prover, self._tracker, apart, self._devices, self._memory_limit)
        own = Control(jobs, self._tracker, apart, self._roots, self._facts, self.stop)
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CALLS)
        handle = _Handlers()
        for services, name, calls in ((proving.services, "ProvingEngine", engine), (control.services, "Control", own)):
            handlers = {each: handle(method, getattr(calls, each)) for each, method in services[name].items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"cuzk.v1.{name}", handlers),))
        self.address = _listen(server, self._address)
        await server.start()
        self.started.set()
        try:
            await self._wake.wait()
        finally:
            self.lost = jobs.stop()
            await server.stop(GRACE)
            for executor in (submitting, others):
                executor.shutdown(wait=False, cancel_futures=True)


class _Handlers:
    """Wraps a call in reading, refusing, and answers to faults."""

    def __init__(self):
        self._slots = {reading: asyncio.Semaphore(reading.slots) for reading in (LARGE, SMALL)}

    def __call__(self, method: Method, call: Callable):
        reading = LARGE if call.__name__ in _LARGE else SMALL

        async def handle(messages, context):
            try:
                async with self._slots[reading]:
                    message = await _read(method.request, messages, reading)
                return await call(message)
            except Refused as refused:
                code, text = refused.code, refused.text
            except Exception as error:      # a fault of ours: one line for the client, the trace in the log file
                code, text = grpc.StatusCode.INTERNAL, str(as_error(method.path, error))
            await context.abort(code, " ".join(text.split()))

        return grpc.stream_unary_rpc_method_handler(handle, None, method.response.SerializeToString)


async def _read(kind: type, messages, reading: Reading):
    """The one message of a call. Raises Refused."""
    refuse = lambda text: Refused(grpc.StatusCode.INVALID_ARGUMENT, text)
    data = None
    try:
        async with asyncio.timeout(reading.seconds):
            async for each in messages:
                if data is not None:
                    raise refuse("a second message in a call of one")
                if len(each) > reading.bytes:
                    raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED,
                                  f"a message of {len(each)} bytes, at most {reading.bytes} are taken")
                data = each
    except TimeoutError:
        raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED,
                      f"the request was not whole within {reading.seconds:.0f} s") from None
    if data is None:
        raise refuse("no message")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise refuse(f"no {kind.DESCRIPTOR.name}: {error}") from None


# ---- the address
@contextlib.contextmanager
def _claimed(address: Address):
    """A socket's path for this process alone: its folder, a lock beside it, and no socket left behind.

    Raises CuzkError: BUSY, naming the process that has it; OUTPUT where it cannot be made.
    """
    if address.path is None:
        yield
        return
    path = address.path
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path == default_socket():
            path.parent.chmod(0o700)
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise fail(Exit.OUTPUT, "listen", path, "no file, or a socket", "something else")
        owner = lock.acquire()
    except OSError as error:
        raise fail(Exit.OUTPUT, "listen", path, None, error.strerror) from None
    if owner is not None:
        raise fail(Exit.BUSY, "listen", path, "no other daemon", f"process {owner or 'unknown'} listens there")
    try:
        yield
        with contextlib.suppress(OSError):
            os.unlink(path)
    finally:
        lock.release()


def _listen(server: grpc.aio.Server, address: Address) -> str:
    """Bind; the address, with the port that was given for 0. Raises CuzkError (OUTPUT, BUSY)."""
    before = os.umask(0o177)            # the socket is 0600 from the moment it is there
    try:
        port = server.add_insecure_port(address.target)
    except RuntimeError as error:
        raise fail(Exit.BUSY if address.path is None else Exit.OUTPUT, "listen", str(address),
                   "an address that is free", " ".join(str(error).split())[:300]) from None
    finally:
        os.umask(before)
    return str(address) if address.path is not None else f"{address.host_port.rsplit(':', 1)[0]}:{port}"
