"""The circuits that can be proved: one table from a proof kind to its structure, synthesis and parameter names."""
from __future__ import annotations

from functools import lru_cache

from ..circuits import snap
from ..protocol import table

KINDS = ("snap",)


@lru_cache(maxsize=4)
def structure(kind: str, sector_size: int):
    """The constraint system of one circuit; the same object for every witness."""
    assert kind == "snap"
    return snap.structure(sector_size)


def synthesise(kind: str, sector_size: int, witness):
    """One partition's Assignment from its vanilla data."""
    return snap.synthesise(structure(kind, sector_size), witness)
