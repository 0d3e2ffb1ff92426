"""Public inputs given as they are: all that a verifier needs besides a key and a proof."""
from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, fail
from ..protocol.fr import R_ORDER, to_words
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import Size, parse_size
from ..sectors.trees import Hash
from .source import read_source, source_name


class Request(NamedTuple):
    """Of any kind; to be verified only."""

    kind: str
    sector_size: str
    source: str | bytes         # a path, "-" for standard input, or the bytes

    def public(self, hash: Hash = poseidon_batch) -> Prepared:
        """Raises CuzkError (INPUT, USAGE)."""
        size = parse_size(self.sector_size)
        return Prepared(self.kind, size, *_read(read_source(self.source), source_name(self.source)))


class Prepared:
    """Public inputs by partition, as words."""

    def __init__(self, kind: str, size: Size, partitions: list[int], rows: list[np.ndarray]):
        self.kind, self.size, self.partitions, self._rows = kind, size, partitions, dict(zip(partitions, rows))
        self.warnings: list[str] = []

    def public_inputs(self, partition: int) -> np.ndarray:
        """Words uint64[n, 4]."""
        return self._rows[partition]

    def facts(self) -> dict:
        """What a result says of its input."""
        return {"kind": self.kind, "sector_size": self.size.name, "sector_size_bytes": self.size.bytes}


def _read(data: bytes, path) -> tuple[list[int], list[np.ndarray]]:
    """Partitions and their inputs.

    JSON: a list of inputs, a list of such lists, or an object: one that has `public_inputs`, as results do, or a list
    of objects of one partition each, as `circuit digest` prints. An input is 64 hex digits, the bytes of a number, least
    significant first, or a number. Raises CuzkError (INPUT).
    """
    def bad(actual: str) -> CuzkError:
        return fail(Exit.INPUT, "read the public inputs", path,
                    "JSON: lists of 64 hex digits, or an object with public_inputs", actual)

    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad(f"no JSON: {error}"[:200]) from None
    numbers = None
    if isinstance(value, dict) and isinstance(value.get("results"), list) and len(value["results"]) == 1:
        value = value["results"][0]
    if isinstance(value, dict) and "public_inputs" not in value:
        entries = next((value[k] for k in ("partitions", "proofs") if isinstance(value.get(k), list)), [])
        if not entries or not all(isinstance(entry, dict) for entry in entries):
            raise bad("an object without public_inputs")
        numbers = [entry.get("partition") for entry in entries]
        value = [entry.get("public_inputs") for entry in entries]
    elif isinstance(value, dict):
        numbers, value = value.get("partitions"), value["public_inputs"]
    if not isinstance(value, list) or not value:
        raise bad("no list")
    lists = value if isinstance(value[0], list) else [value]
    if not isinstance(numbers, list) or len(numbers) != len(lists) or not all(type(n) is int for n in numbers):
        numbers = list(range(len(lists)))
    rows = []
    for k, entries in zip(numbers, lists):
        if not isinstance(entries, list) or not entries:
            raise bad(f"no list for partition {k}")
        rows.append(to_words([_number(entry, k, i, bad) for i, entry in enumerate(entries)]))
    return numbers, rows


def _number(entry, partition: int, i: int, bad) -> int:
    try:
        if type(entry) is int:
            value = entry
        elif isinstance(entry, str) and len(entry.removeprefix("0x")) == 64:
            value = int.from_bytes(bytes.fromhex(entry.removeprefix("0x")), "little")
        else:
            raise ValueError
    except ValueError:
        raise bad(f"{repr(entry)[:80]} as input {i} of partition {partition}") from None
    if not 0 <= value < R_ORDER:
        raise bad(f"a number that is not below the group order as input {i} of partition {partition}")
    return value
