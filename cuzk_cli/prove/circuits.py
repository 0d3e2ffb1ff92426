"""The circuits that can be proved: from a proof kind and a sector size to structure and synthesis. No JAX."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, Iterable, NamedTuple

from ..circuits import fallback, snap, stacked
from ..protocol.table import SIZES, WINDOW_CHALLENGES, WINNING_CHALLENGES, Size


class Circuit(NamedTuple):
    """The circuit of a proof kind, for every sector size."""

    shape: Callable[[Size], object]
    build: Callable[[object], object]                       # shape -> Structure
    synthesise: Callable[[object, object, object], object]  # structure, shape, witness -> Assignment
    parts: tuple | None = None      # (inputs, in_parts) of (shape, witness), where memory may not hold a partition


def _snap(size: Size) -> snap.Shape:
    return snap.Shape(size.name, size.log_nodes, size.snap_partitions, size.snap_challenges, size.snap_apex_leaves,
                      size.snap_hs, size.arities)


def _porep(size: Size) -> stacked.Shape:
    return stacked.Shape(size.name, size.log_nodes, size.layers, size.porep_challenges, size.arities)


def _winning(size: Size) -> fallback.Shape:
    return fallback.Shape(f"winning {size.name}", size.arities, WINNING_CHALLENGES, 1)


def _window(size: Size) -> fallback.Shape:
    return fallback.Shape(f"window {size.name}", size.arities, size.window_sectors, WINDOW_CHALLENGES)


CIRCUITS = {
    "snap": Circuit(_snap, snap.build, snap.synthesise),
    "porep": Circuit(_porep, stacked.build, stacked.synthesise),
    "winning": Circuit(_winning, fallback.build, fallback.synthesise),
    "window": Circuit(_window, fallback.build, fallback.synthesise, (fallback.inputs, fallback.in_parts)),
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


def synthesise_parts(kind: str, sector_size: int, witness) -> tuple[object, Iterable]:
    """One partition's public inputs, ONE first, and its assignment as one or more Assignments, one after another."""
    circuit = CIRCUITS[kind]
    if circuit.parts is None:
        whole = synthesise(kind, sector_size, witness)
        return whole.inputs, [whole]
    inputs, in_parts = circuit.parts
    shape = circuit.shape(SIZES[sector_size])
    return inputs(shape, witness), in_parts(shape, witness)
