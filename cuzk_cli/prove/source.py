"""Input that is a file, standard input or bytes."""
from __future__ import annotations

import sys
from pathlib import Path

from ..errors import Exit, fail
from ..sectors.watch import reading


def read_source(source: str | bytes) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises CuzkError (INPUT)."""
    if isinstance(source, bytes):
        return source
    try:
        with reading("read", "standard input" if source == "-" else source):
            return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise fail(Exit.INPUT, "read", source, "a readable file", error.strerror) from None


def source_name(source: str | bytes | None) -> str | None:
    """What messages call it; None for standard input and bytes."""
    return None if isinstance(source, bytes) or source == "-" else source
