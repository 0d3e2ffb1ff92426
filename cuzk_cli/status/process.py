"""Who a process is: a pid alone is reused, with its start time and the boot it is unique."""
from __future__ import annotations

import os
import time


def boot_id() -> str | None:
    """Of the running system, None where it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def boot_time() -> float | None:
    """Seconds since boot, the same clock for all processes; it never goes back. None where there is no such clock."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):
        return None


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which a process started; None where there is no such process, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()     # the name in parentheses may hold anything
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
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
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def resident_bytes() -> int | None:
    """Resident memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def system_memory() -> tuple[int | None, int | None]:
    """(total, available) bytes of the system."""
    found = {}
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                name, value = line.split(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = int(value.split()[0]) << 10
    except (OSError, IndexError, ValueError):
        pass
    return found.get("MemTotal"), found.get("MemAvailable")
