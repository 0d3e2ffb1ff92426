"""A client of a daemon: what the commands and `cuzk prove` call. Starts without JAX and NumPy."""
from __future__ import annotations

import json
from typing import Iterator

import grpc

from ..errors import CuzkError, Exit, Problem, fail
from .address import Address
from .proto import Method, control

CONNECT = 3.0           # seconds until an answer to Hello
_OPTIONS = [("grpc.max_receive_message_length", 128 << 20), ("grpc.max_send_message_length", 128 << 20),
            ("grpc.enable_http_proxy", 0)]
_EXIT = {grpc.StatusCode.INVALID_ARGUMENT: Exit.USAGE, grpc.StatusCode.NOT_FOUND: Exit.INPUT,
         grpc.StatusCode.ALREADY_EXISTS: Exit.BUSY, grpc.StatusCode.RESOURCE_EXHAUSTED: Exit.BUSY,
         grpc.StatusCode.UNAVAILABLE: Exit.BUSY, grpc.StatusCode.DEADLINE_EXCEEDED: Exit.BUSY}


class Client:
    """Every call raises CuzkError: USAGE, INPUT for what is refused, BUSY where no daemon answers or it has no room."""

    def __init__(self, address: Address):
        self.address = address
        self._channel = grpc.insecure_channel(address.target, _OPTIONS)

    def _call(self, name: str, timeout: float | None = None, **fields):
        method: Method = control.services["Control"][name]
        call = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        try:
            return call(method.request(**fields), timeout=timeout)
        except grpc.RpcError as error:
            code = error.code()
            hint = "start one with: cuzk daemon" if error.details().startswith("failed to connect") else None
            raise fail(_EXIT.get(code, Exit.INTERNAL), f"ask the daemon ({name})", str(self.address), None,
                       error.details()[:2000], hint) from None

    def hello(self):
        """A HelloResponse."""
        return self._call("Hello", CONNECT)

    def submit(self, job: dict, vanilla: bytes = b"", request_id: str = "", priority: str | None = None,
               deadline: float | None = None, leave: bool = False) -> dict:
        """{job_id, queue_position, joined} of a job: kind, and the fields of its request."""
        found = self._call("Submit", request_id=request_id, priority=priority or "", deadline=deadline or 0.0,
                           job=json.dumps(job), vanilla=vanilla, leave=leave)
        if found.problems:
            problems = json.loads(found.problems)
            raise CuzkError(*(Problem(Exit(p["exit"]), *(p[key] for key in (
                "operation", "path", "expected", "actual", "hint"))) for p in problems))
        return {"job_id": found.job_id, "queue_position": found.queue_position, "joined": found.joined}

    def wait(self, job_id: str, seconds: float = 0) -> tuple[dict | None, dict | None]:
        """(result, None) when it is finished within some seconds (0: ever), else (None, its part of the status)."""
        found = self._call("Wait", job_id=job_id, timeout_ms=max(1, round(seconds * 1e3)) if seconds else 0)
        loads = lambda text: json.loads(text) if text else None
        return loads(found.result), loads(found.progress)

    def watch(self, job_id: str, every: float) -> Iterator[tuple[dict | None, dict | None]]:
        """`wait` again and again; the last has the result."""
        result = None
        while result is None:
            result, progress = self.wait(job_id, every)
            yield result, progress

    def cancel(self, job_id: str, reason: str = "") -> bool:
        """Was it unfinished, and is cancelled now?"""
        return self._call("Cancel", 30.0, job_id=job_id, reason=reason).was_running

    def jobs(self) -> list[dict]:
        """Oldest first."""
        return json.loads(self._call("Jobs", 30.0).jobs)

    def drain(self, wait: bool = True, stop: bool = False, undo: bool = False) -> int:
        """The daemon takes no new jobs, and with `stop` ends after those it has; how many these were."""
        return self._call("Drain", None if wait else 30.0, wait=wait, stop=stop, undo=undo).unfinished

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()
