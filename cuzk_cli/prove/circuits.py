"""The circuits that can be proved: from a proof kind and a sector size to structure and synthesis. No JAX."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, NamedTuple

from ..circuits import snap, stacked
from ..protocol.table import SIZES, Size


class Circuit(NamedTuple):
    """The circuit of a proof kind, for every sector size."""

    shape: Callable[[Size], object]
    build: Callable[[object], object]                       # shape -> Structure
    synthesise: Callable[[object, object, object], object]  # structure, shape, witness -> Assignment


def _snap(size: Size) -> snap.Shape:
    return snap.Shape(size.name, size.log_nodes, size.snap_partitions, size.snap_challenges, size.snap_apex_leaves,
                      size.snap_hs, size.arities)


def _porep(size: Size) -> stacked.Shape:
    return stacked.Shape(size.name, size.log_nodes, size.layers, size.porep_challenges, size.arities)


CIRCUITS = {
    "snap": Circuit(_snap, snap.build, snap.synthesise),
    "porep": Circuit(_porep, stacked.build, stacked.synthesise),
}


@lru_cache(maxsize=4)
def structure(kind: str, sector_size: int):
    """The constraint system of one partition, built once a process: the same object for every witness."""
    circuit = CIRCUITS[kind]
    return circuit.build(circuit.shape(SIZES[sector_size]))


def synthesise(kind: str, sector_size: int, witness):
    """One partition's Assignment from its vanilla data."""
    circuit = CIRCUITS[kind]
    return circuit.synthesise(structure(kind, sector_size), circuit.shape(SIZES[sector_size]), witness)
