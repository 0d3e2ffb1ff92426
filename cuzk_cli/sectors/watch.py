"""Which files are being read right now, so that a read that hangs can be named; and how long threads have read."""
from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Iterator

_reads: dict[int, tuple[str, str, float]] = {}      # thread -> operation, path, since when
_spent: dict[int, float] = {}                       # metered thread -> seconds of the reads that have ended


@contextmanager
def reading(operation: str, path) -> Iterator[None]:
    """Around a system call on a file, or several that follow each other."""
    thread, since = threading.get_ident(), time.monotonic()
    _reads[thread] = operation, str(path), since
    try:
        yield
    finally:
        _reads.pop(thread, None)
        if thread in _spent:
            _spent[thread] += time.monotonic() - since


@contextmanager
def metered() -> Iterator[int]:
    """Count the reads of this thread from here on; gives its number."""
    thread = threading.get_ident()
    _spent[thread] = 0.0
    try:
        yield thread
    finally:
        _spent.pop(thread, None)


def spent(thread: int) -> tuple[float, str | None]:
    """Seconds that a metered thread has read, the read that has not ended among them; and that one's path."""
    read = _reads.get(thread)
    now = 0.0 if read is None else time.monotonic() - read[2]
    return _spent.get(thread, 0.0) + now, None if read is None else read[1]


def blocked(seconds: float = 5.0) -> list[dict]:
    """Reads that have not ended for so long, the longest first: {operation, path, seconds}."""
    now = time.monotonic()
    found = [{"operation": operation, "path": path, "seconds": round(now - since, 1)}
             for operation, path, since in list(_reads.values()) if now - since >= seconds]
    return sorted(found, key=lambda read: -read["seconds"])
