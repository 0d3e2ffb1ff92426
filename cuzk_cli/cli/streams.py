"""Standard output and error as pipelines want them: results on one, everything else on the other, honest exit codes."""
from __future__ import annotations

import errno
import json
import os
import sys

from ..errors import CuzkError, Exit, fail


class ClosedPipe(Exception):
    """Whoever read our standard output is gone."""


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
    if sys.stdout is None:
        raise ClosedPipe
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _silence()
        raise ClosedPipe from None
    except OSError as error:
        _silence()
        if error.errno == errno.EBADF:
            raise ClosedPipe from None
        raise fail(Exit.OUTPUT, "write", "standard output", None, error.strerror) from None


def put_json(value) -> None:
    """One line of JSON."""
    put(json.dumps(value, allow_nan=False).encode() + b"\n")


def _silence() -> None:
    """The interpreter flushes standard output at its end: let that go nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
