"""Outputs of PoRep's commit phase 1, in each form that is met in the field.

    JSON of the proofs API      {"registered_proof": …, "vanilla_proofs": {NAME: [partitions]}, "comm_r": …, …}
    wrapped, by lotus and curio {"SectorNum": …, "Phase1Out": base64 of that, "SectorSize": …}
    supraseal's binary          bincode of the vanilla proofs, then comm_r, comm_d, replica_id, seed, ticket

Sources: rust-filecoin-proofs-api src/seal.rs, storage-proofs-porep src/stacked/vanilla/params.rs, lotus
cmd/lotus-bench/main.go, curio lib/proof/porep_vproof_bin_decode.go.
"""
from __future__ import annotations

import binascii
import json
import re

from ..errors import Exit, fail
from ..protocol.fr import R_ORDER
from . import c1_binary, c1_json
from .stacked import C1, no_elements

LARGEST = 1 << 30       # bytes of a file: a non-interactive PoRep's of 64 GiB in the wrapper has 640 million
_OPERATION = "parse the phase 1 output"


def parse(data: bytes, path=None) -> C1:
    """Raises CuzkError (INPUT) for what is none, is cut off, or holds numbers that are no field elements."""
    if not data.strip():
        raise fail(Exit.INPUT, _OPERATION, path, "JSON or supraseal's binary", "the input is empty")
    if len(data) > LARGEST:
        raise fail(Exit.INPUT, _OPERATION, path, f"at most {LARGEST} bytes", f"{len(data)} bytes")
    if data[4:8] == bytes(4):           # the upper half of a count; JSON holds no null bytes
        found = c1_binary.parse(data, path)
    elif data.lstrip()[:1] == b"{":
        wrapper = re.compile(rb'"phase1out"\s*:\s*"([^"]*)("?)', re.IGNORECASE).search(data)
        if wrapper is None:
            found = c1_json.parse(data, path)
        else:
            around, data = _unwrap(data, *wrapper.span(1), bool(wrapper[2]), path)
            del wrapper                 # and with it the whole file's memory
            found = _wrapped(around, c1_json.parse(data, path, "the JSON in Phase1Out"), path)
    else:
        raise fail(Exit.INPUT, _OPERATION, path, "JSON or supraseal's binary", f"it begins with {bytes(data[:16])!r}")
    _refuse_no_elements(found, path)
    return found


def _refuse_no_elements(found: C1, path) -> None:
    below = "a number below the group order"
    for name in ("comm_r", "comm_d", "replica_id"):
        value = getattr(found.facts, name)
        if int.from_bytes(value, "little") >= R_ORDER:
            raise fail(Exit.INPUT, f"{_OPERATION}: {name} is no field element", path, below, value.hex())

    def wrong(what, expected, actual, challenge):
        partition, i = divmod(int(challenge), found.size.porep_challenges)
        raise fail(Exit.INPUT, f"{_OPERATION}: partition {partition}, challenge {i}: {what}", path, expected,
                   actual.tobytes().hex())

    no_elements(found.proofs, wrong)


def _unwrap(data: bytes, first: int, last: int, closed: bool, path) -> tuple[dict, bytes]:
    """The wrapper of lotus and curio without the text first..last, and that text decoded. Raises CuzkError (INPUT)."""
    if not closed:
        raise fail(Exit.INPUT, _OPERATION, path, "base64 as Phase1Out", f"its text ends at byte {len(data)}",
                   "is the file complete?")
    around, _ = c1_json.load(data[:first] + data[last:], path, cut=(first, last - first))
    try:
        text = memoryview(data)[first:last]
        if data.find(b"\\", first, last) >= 0:
            text = json.loads(data[first - 1:last + 1])
        return {name.lower(): value for name, value in around.items()}, binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise fail(Exit.INPUT, _OPERATION, path, "base64 as Phase1Out", error) from None


def _wrapped(around: dict, found: C1, path) -> C1:
    """With the sector number of the wrapper. Raises CuzkError (INPUT)."""
    sector, size = around.get("sectornum"), around.get("sectorsize")
    if sector is not None and (type(sector) is not int or not 0 <= sector < 1 << 64):
        raise fail(Exit.INPUT, f"{_OPERATION}: SectorNum", path, "a sector number", repr(sector)[:40])
    if size is not None and size != found.size.bytes:
        raise fail(Exit.INPUT, f"{_OPERATION}: SectorSize", path,
                   f"{found.size.bytes} for its registered proof", repr(size)[:40])
    return found._replace(sector=sector)
