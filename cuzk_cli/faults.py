"""Faults of ours: one line for people, the trace in a log file."""
from __future__ import annotations

import errno
import os
import time
import traceback
from pathlib import Path

from . import __version__
from .errors import CuzkError, Exit, fail

_SCARCE = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EFBIG, errno.EAGAIN)     # of what there is too little


def log_file() -> Path:
    """Where traces of internal errors go."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuzk" / "error.log"


def log(trace: str) -> str:
    """Append a trace to the log file; the hint that says where it is."""
    try:
        path = log_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} cuzk {__version__} pid {os.getpid()}\n")
            file.write(trace + "\n")
        return f"trace in {path}"
    except (OSError, RuntimeError):     # RuntimeError: nobody knows where home is
        return "it could not be logged"


def as_error(operation: str, error: BaseException) -> CuzkError:
    """What any exception means to a user: itself, too little memory, or a fault of ours whose trace is logged."""
    if isinstance(error, CuzkError):
        return error
    if isinstance(error, MemoryError):
        return fail(Exit.RESOURCES, operation, actual=str(error) or "out of memory")
    if isinstance(error, OSError) and error.errno in _SCARCE:
        return fail(Exit.RESOURCES, operation, actual=error.strerror, hint="a limit of this process or of the system")
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return fail(Exit.RESOURCES, operation, actual=str(error), hint="a limit of this process or of the system")
    last = " ".join(f"{type(error).__name__}: {error}".split())
    return fail(Exit.INTERNAL, operation, actual=last[:300], hint=log("".join(traceback.format_exception(error))))
