"""A circuit of 2^10 rows that goes the way of all others: synthesis pool, device, verification.

H(H(H(x, x), x), x) for a public x. `install` makes it a kind of its own in a process; the synthesis workers of such a
process run `tests.tiny.worker`.
"""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cuzk_cli.circuits import gadgets
from cuzk_cli.circuits.poseidon import poseidon_hash
from cuzk_cli.circuits.structure import Structure
from cuzk_cli.circuits.witness import assign
from cuzk_cli.params import locate
from cuzk_cli.prove import circuits
from cuzk_cli.protocol.poseidon import tag_merkle
from cuzk_cli.protocol.table import SIZES, Size

KIND, SIZE, SEED = "tiny", SIZES[2048], "tiny"


def build(shape) -> Structure:
    table: dict = {}
    s = Structure(KIND, 2, table)
    x = node = s.place(gadgets.public_element(table))[0]
    pair = poseidon_hash(2, tag_merkle(2), table)
    for _ in range(3):
        node = s.place(pair, (node, x))[-1]
    return s.freeze()


def synthesise(structure: Structure, shape, value: int):
    return assign(structure, np.array([[value, 0, 0, 0]], np.uint64))


class Request(NamedTuple):
    """`count` partitions; partition k proves value + k."""

    value: int
    count: int = 1
    kind: str = KIND

    @property
    def label(self) -> str:
        return str(self.value)

    def subject(self) -> dict:
        return {"value": self.value}

    def prepare(self, hash=None, check: bool = True) -> "Prepared":
        return Prepared(self)

    public = prepare


class Prepared:
    kind, size, miner, warnings = KIND, SIZE, 1, []

    def __init__(self, request: Request):
        self.request, self.number, self.partitions = request, request.value, list(range(request.count))

    def witness(self, partition: int) -> int:
        return self.request.value + partition

    def public_inputs(self, partition: int) -> np.ndarray:
        return np.array([[self.request.value + partition, 0, 0, 0]], np.uint64)

    def facts(self) -> dict:
        return {"kind": KIND, **self.request.subject(), "partitions": self.partitions}

    def identity(self) -> bytes:
        return repr(self.request).encode()


def install() -> None:
    """Make the circuit known in this process, and its synthesis workers."""
    from cuzk_cli.prove import synthesis

    circuits.CIRCUITS[KIND] = circuits.Circuit(lambda size: None, build, synthesise)
    synthesis._Process.MODULE = "tests.tiny.worker"
    of = locate.Circuit.of

    def circuit_of(kind: str, size: Size) -> locate.Circuit:
        return locate.Circuit(KIND, size.name, "v28-tiny", None, None) if kind == KIND else of(kind, size)

    locate.Circuit.of = circuit_of


def generate(folder: Path) -> Path:
    """Its parameters, from the published seed. Imports JAX, which must be set up."""
    from cuzk_cli.params.generate import device_fixed_base, generate as generate_files

    return generate_files(circuits.structure(KIND, SIZE.bytes), "v28-tiny", folder, SEED, device_fixed_base()).params
