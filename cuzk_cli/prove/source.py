"""Input that is a file, standard input or bytes."""
from __future__ import annotations

import sys

from ..errors import Exit, fail
from ..sectors.watch import reading


LARGEST = 512 << 20     # bytes of vanilla proofs in any form: a full WindowPoSt partition as lists of numbers is half of it


def read_source(source: str | bytes, largest: int = LARGEST) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises CuzkError (INPUT), also for more than `largest` bytes."""
    if isinstance(source, bytes):
        return source
    name = "standard input" if source == "-" else source
    try:
        with reading("read", name), sys.stdin.buffer if source == "-" else open(source, "rb") as file:
            data = file.read(largest + 1)
    except (OSError, ValueError) as error:      # ValueError: a null character in the name
        raise fail(Exit.INPUT, "read", name, "a readable file", getattr(error, "strerror", None) or error) from None
    if len(data) > largest:
        raise fail(Exit.INPUT, "read", name, f"at most {largest} bytes", "more")
    return data


def source_name(source: str | bytes | None) -> str | None:
    """What messages call it; None for standard input and bytes."""
    return None if isinstance(source, bytes) or source == "-" else source
