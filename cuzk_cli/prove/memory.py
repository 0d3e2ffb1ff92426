"""How much memory a proof takes, how much there is, and how much was taken."""
from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

from ..errors import Exit, fail

_BASE = 900 << 20           # interpreter, JAX, compiled programs, a table of 2^16 points, entry buffers
_PER_ROW = 330              # bytes a domain row: three polynomials in limbs, words in and out, row values
_PER_POINT = 450            # bytes a point of the h table, at most 2^21 of them: encoding, rows, digits, schedule
_TABLE = 1 << 21
_WORKER = 220 << 20         # a synthesis worker, and per row and variable below
_PER_ASSIGNMENT = 5


class Estimate(NamedTuple):
    """Peak bytes of proving one partition at a time, over all processes, by what needs them."""

    base: int           # interpreter, JAX, compiled programs
    synthesis: int      # a worker
    assignments: int    # the one that is proved and the one that waits
    device: int         # the larger of the transforms and the multi-exponentiation over h

    @property
    def total(self) -> int:
        return sum(self)


def estimate(structure) -> Estimate:
    """What a circuit takes."""
    m = 1 << structure.log_m
    device = max(m * _PER_ROW, min(m, _TABLE) * _PER_POINT + 32 * m)
    return Estimate(_BASE, _WORKER, _PER_ASSIGNMENT * 2 * structure.total_rows, device)


def ahead(structure, budget: int, most: int) -> int:
    """Partitions that may be synthesised before a device takes them: as `budget` bytes allow, 1 to `most`."""
    needed = estimate(structure)
    spare = budget - needed.total
    return max(1, min(most, 1 + spare // max(needed.assignments // 2, 1)))


def budget(option: int | None) -> tuple[int, str]:
    """Bytes that may be used, and what says so: the least of `available` and the option's."""
    have, source = available()
    return (option, "--memory-budget") if option is not None and option < have else (have, source)


def available() -> tuple[int, str]:
    """Bytes that may be used, and what says so: the cgroup's limit or the system's available memory."""
    limits = []
    for path, used in (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
                       ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")):
        limit, current = _number(path), _number(used)
        if limit is not None and limit < 1 << 60:
            limits.append((max(limit - (current or 0), 0), "cgroup"))
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            limits.append((int(line.split()[1]) << 10, "available memory"))
    return min(limits, default=(1 << 62, "unknown"))


def require(structure, name: str, option: int | None = None) -> None:
    """Raises CuzkError (RESOURCES) where the estimate does not fit what there is, or the `option` in bytes."""
    need, (have, source) = estimate(structure).total, budget(option)
    if need > have:
        raise fail(Exit.RESOURCES, f"plan the memory of {name}", None, f"{need} bytes", f"{have} bytes ({source})",
                   "use a machine with more memory")


def _number(path: str) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def resident(pids: list[int]) -> int:
    """Anonymous and shared resident bytes (RssAnon + RssShmem) of some processes."""
    total = 0
    for pid in pids:
        for line in _lines(f"/proc/{pid}/status"):
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) << 10
    return total


class PeakMeter:
    """Samples the resident memory of this process and its synthesis workers."""

    def __init__(self, pids, interval: float = 0.1):
        self._pids, self._interval, self.peak = pids, interval, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self.peak = max(self.peak, resident([os.getpid(), *self._pids()]))
            if self._stop.wait(self._interval):
                return

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.peak
