"""The fallback PoSt's circuit, of WinningPoSt and WindowPoSt: storage-proofs-post src/fallback/circuit.rs.

Order of the parts, which is the order of rows and variables; sectors one after another:

    comm_r_last, comm_c, comm_r ─ comm_r check ─ for each challenge: leaf ─ for each level: bits, siblings, insert, hash
    ─ the index of the leaf, made public ─ root check                          (storage-proofs-core src/gadgets/por.rs)

WinningPoSt is one sector as 66 sectors of one challenge each.
"""
from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np

from ..protocol.poseidon import tag_merkle
from . import gadgets
from .poseidon import permute
from .structure import Structure
from .template import ONE, Builder, Template
from .witness import Assignment, assign

AT_ONCE = 128       # sectors of a part: 1.1 GiB of assignment at 32 GiB, where a whole partition takes 20


class Shape(NamedTuple):
    """What a proof kind and a sector size make of the circuit."""

    name: str               # "window 2KiB"
    arities: tuple          # of tree R's levels, leaves first
    sectors: int            # per partition
    challenges: int         # per sector

    @property
    def externals(self) -> int:
        """Values of one challenge that come from outside: the leaf, and for each level its position and siblings."""
        return 1 + sum(self.arities)


class PartitionWitness(NamedTuple):
    """One partition's vanilla data; words are uint64[..., 4]. Siblings level by level, leaves first."""

    comm_r_last: np.ndarray     # [sectors, 4]
    comm_c: np.ndarray          # [sectors, 4]
    comm_r: np.ndarray          # [sectors, 4]
    leaf: np.ndarray            # [sectors, challenges, 4]
    position: np.ndarray        # int64[sectors, challenges, levels]
    siblings: np.ndarray        # [sectors, challenges, Σ(arity − 1), 4]


def _commitments(table: dict) -> Template:
    """comm_r_last, comm_c and comm_r from outside, comm_r public; H(comm_c, comm_r_last) is comm_r."""
    builder = Builder("sector", 0, 0, table, inputs=1)
    comm_r_last, comm_c, comm_r = (builder.external() for _ in range(3))
    builder.inputize(comm_r)
    found = permute(builder, [comm_c, comm_r_last], tag_merkle(2))
    builder.enforce({comm_r: 1}, {ONE: 1}, {found: 1})
    return builder.finish()


def _inclusion(arities: tuple, table: dict) -> Template:
    """Port: comm_r_last. A leaf's path to it; the leaf's index is public."""
    builder = Builder("inclusion", 0, 1, table, inputs=1)
    (root,) = builder.element_ports
    node, index = builder.external(), []
    for arity in arities:
        bits = builder.external_bits(arity.bit_length() - 1)
        siblings = [builder.external() for _ in range(arity - 1)]
        node = permute(builder, gadgets.insert(builder, node, siblings, bits), tag_merkle(arity))
        index += bits
    builder.pack_into_input(index)
    builder.enforce({node: 1}, {ONE: 1}, {root: 1})
    return builder.finish()


def build(shape: Shape) -> Structure:
    """The constraint system of one partition."""
    table: dict = {}
    commitments, inclusion = _commitments(table), _inclusion(shape.arities, table)
    s = Structure(shape.name, 1 + shape.sectors * (1 + shape.challenges), table)
    for _ in range(shape.sectors):
        ports = (s.place(commitments)[0],)
        for _ in range(shape.challenges):
            s.place(inclusion, ports)
    return s.freeze()


def synthesise(structure: Structure, shape: Shape, witness: PartitionWitness) -> Assignment:
    """The assignment of one partition; what does not satisfy the circuit is assigned all the same."""
    w = witness
    each = 3 + shape.challenges * shape.externals
    externals = np.zeros((shape.sectors, each, 4), np.uint64)
    externals[:, 0], externals[:, 1], externals[:, 2] = w.comm_r_last, w.comm_c, w.comm_r
    paths = externals[:, 3:].reshape(shape.sectors, shape.challenges, shape.externals, 4)
    paths[:, :, 0] = w.leaf
    at, used = 1, 0
    for level, arity in enumerate(shape.arities):
        paths[:, :, at, 0] = w.position[:, :, level]
        paths[:, :, at + 1:at + arity] = w.siblings[:, :, used:used + arity - 1]
        at, used = at + arity, used + arity - 1
    externals[:, 3:] = paths.reshape(shape.sectors, -1, 4)
    return assign(structure, externals.reshape(-1, 4))


def inputs(shape: Shape, witness: PartitionWitness) -> np.ndarray:
    """A partition's public inputs, uint64[n_inputs, 4], ONE first: for each sector comm_r and its leaves' indices."""
    out = np.zeros((shape.sectors, 1 + shape.challenges, 4), np.uint64)
    out[:, 0] = witness.comm_r
    scale = np.cumprod((1, *shape.arities[:-1]))
    out[:, 1:, 0] = (witness.position * scale).sum(axis=2)
    return np.concatenate([np.array([[1, 0, 0, 0]], np.uint64), out.reshape(-1, 4)])


def in_parts(shape: Shape, witness: PartitionWitness, at_once: int = AT_ONCE) -> Iterator[Assignment]:
    """The assignment of one partition, `at_once` sectors at a time.

    No constraint spans two sectors, so that every part is a smaller partition's assignment, ONE and all.
    """
    part = structure = None
    for first in range(0, shape.sectors, at_once):
        size = shape._replace(sectors=min(at_once, shape.sectors - first))
        if size != part:
            part, structure = size, build(size)
        yield synthesise(structure, part, PartitionWitness(*(v[first:first + at_once] for v in witness)))
