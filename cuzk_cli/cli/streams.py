"""Standard streams as pipelines want them: results on one, everything else on the other, honest exit codes.

Results are written to descriptor 1 without a buffer of Python's: nothing is left to fail when the interpreter ends.
"""
from __future__ import annotations

import errno
import json
import os
import select
import sys

from ..errors import CuzkError, Exit, fail

LARGEST_INPUT = 1 << 31     # bytes of standard input; what it is for has a limit of its own

_closed: set[int] = set()       # descriptors that were closed when we began
_answered = False


class ClosedPipe(Exception):
    """Whoever read our standard output is gone, or it was never open."""


def guard() -> None:
    """Give closed standard descriptors to /dev/null: the next file opened would get the number, and our output."""
    for fd, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            _closed.add(fd)
        if stream is None:
            _closed.add(fd)


def closed(fd: int) -> bool:
    """Was this descriptor closed when we began?"""
    return fd in _closed


def answered() -> bool:
    """Has an answer gone to standard output, whole?"""
    return _answered


def say(text: str) -> None:
    """One line on standard error; a closed one is no reason to stop."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def report(error: CuzkError) -> None:
    """One line for each problem."""
    for problem in error.problems:
        say(f"cuzk: {problem.line()}")


def put(data: bytes) -> None:
    """Write to standard output. Raises ClosedPipe, or CuzkError (OUTPUT) where it cannot be written."""
    global _answered
    if closed(1):
        raise ClosedPipe
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(1, rest):]
        except BlockingIOError:         # a pipe that somebody made non-blocking
            select.select([], [1], [])
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.EBADF):
                raise ClosedPipe from None
            raise fail(Exit.OUTPUT, "write", "standard output", None, error.strerror) from None
    _answered = True


def put_json(value) -> None:
    """One line of JSON."""
    put(json.dumps(value, allow_nan=False).encode() + b"\n")


def read(source: str, limit: int | None = None) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises CuzkError (INPUT), also for more than `limit` bytes."""
    name = "standard input" if source == "-" else source
    if source == "-" and closed(0):
        raise fail(Exit.INPUT, "read", name, "a proof", "it is closed")
    try:
        with open(0 if source == "-" else source, "rb", closefd=source != "-") as file:
            data = file.read() if limit is None else file.read(limit + 1)
    except (OSError, ValueError) as error:      # ValueError: a null character in the name
        raise fail(Exit.INPUT, "read", name, "a readable file", getattr(error, "strerror", None) or error) from None
    if limit is not None and len(data) > limit:
        raise fail(Exit.INPUT, "read", name, f"at most {limit} bytes", "more")
    return data
