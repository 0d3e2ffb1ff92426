"""Which files are being read right now, so that a read that hangs can be named by whoever shows the status."""
from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Iterator

_reads: dict[int, tuple[str, str, float]] = {}      # thread -> operation, path, since when


@contextmanager
def reading(operation: str, path) -> Iterator[None]:
    """Around a system call on a file, or several that follow each other."""
    thread = threading.get_ident()
    _reads[thread] = operation, str(path), time.monotonic()
    try:
        yield
    finally:
        _reads.pop(thread, None)


def blocked(seconds: float = 5.0) -> list[dict]:
    """Reads that have not ended for so long, the longest first: {operation, path, seconds}."""
    now = time.monotonic()
    found = [{"operation": operation, "path": path, "seconds": round(now - since, 1)}
             for operation, path, since in list(_reads.values()) if now - since >= seconds]
    return sorted(found, key=lambda read: -read["seconds"])
