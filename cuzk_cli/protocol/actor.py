"""Miners as ids: t01000, f01000 or 1000; and as prover ids, the payload of the id address in 32 bytes (go-address)."""
from __future__ import annotations

import re

from ..errors import Exit, fail


def parse_miner(text: str, option: str = "--miner") -> int:
    """"t01000", "f01000", "1000" -> 1000. Raises CuzkError (USAGE)."""
    match = re.fullmatch(r"(?:[tf]0)?(0|[1-9][0-9]{0,19})", text.strip())
    if match is None or int(match[1]) >= 1 << 63:
        raise fail(Exit.USAGE, "read the miner", option, "an id address such as t01000, or its number", repr(text))
    return int(match[1])


def prover_id(miner: int) -> bytes:
    """Unsigned LEB128, left-aligned in 32 bytes."""
    out = bytearray()
    while True:
        miner, low = miner >> 7, miner & 0x7F
        out.append(low | (0x80 if miner else 0))
        if not miner:
            return bytes(out).ljust(32, b"\0")


def miner_of(prover: bytes) -> int | None:
    """The miner that a prover id is of, None for 32 bytes that are none."""
    value = 0
    for i, byte in enumerate(prover[:10]):
        value |= (byte & 0x7F) << (7 * i)
        if not byte & 0x80:
            return value if value < 1 << 64 and prover_id(value) == prover else None
    return None
