"""The circuits that can be proved: from a proof kind and a sector size to structure, synthesis and counts."""
from __future__ import annotations

from functools import lru_cache

from ..circuits import snap
from ..protocol.table import SIZES, Size

KINDS = ("snap",)


def shape(size: Size) -> snap.Shape:
    """The SnapDeals circuit's shape for a sector size."""
    return snap.Shape(size.name, size.log_nodes, size.snap_partitions, size.snap_challenges, size.snap_apex_leaves,
                      size.snap_hs, size.arities)


@lru_cache(maxsize=4)
def structure(kind: str, sector_size: int):
    """The constraint system of one partition, built once a process: the same object for every witness."""
    assert kind in KINDS
    return snap.build(shape(SIZES[sector_size]))


def synthesise(kind: str, sector_size: int, witness):
    """One partition's Assignment from its vanilla data."""
    return snap.synthesise(structure(kind, sector_size), shape(SIZES[sector_size]), witness)
