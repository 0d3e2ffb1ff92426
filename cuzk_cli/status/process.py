"""Who a process is: its pid alone is reused, with its start time and the boot it is unique."""
from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str | None:
    """Of the running system, None where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which a process started; None where there is no such process."""
    try:
        # the name in parentheses may hold anything
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def alive(pid: int, started: int | None, boot: str | None) -> bool:
    """Does the process that had this identity still run?"""
    if boot is not None and boot != boot_id():
        return False
    if started is not None:
        return start_time(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
