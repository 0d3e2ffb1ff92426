"""Supraseal's binary form of a phase 1 output: bincode, in which a sector size fixes every length."""
from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..errors import Exit, fail
from ..protocol.table import DRG_PARENTS, EXPANDER_PARENTS, LABEL_PARENTS, SIZES, Size
from .encoding import levels_of, merkle_type, read_paths, write_paths
from .stacked import C1, Facts, Proofs

_OPERATION = "parse the phase 1 output"
_TAIL = ("comm_r", "comm_d", "replica_id", "seed", "ticket")


@lru_cache(maxsize=None)
def _record_type(size: Size) -> np.dtype:
    """The packed vanilla proof of one challenge."""
    column = np.dtype([("index", "<u4"), ("rows_length", "<u8"), ("rows", "<u8", (size.layers, 4)),
                       ("path", merkle_type(levels_of(size)))])
    label = np.dtype([("parents_length", "<u8"), ("parents", "<u8", (LABEL_PARENTS, 4)), ("layer", "<u4"),
                      ("node", "<u8")])
    return np.dtype([("data", merkle_type([(2,) * size.log_nodes])), ("replica", merkle_type(levels_of(size))),
                     ("c_x", column), ("drg_length", "<u8"), ("drg", column, (DRG_PARENTS,)),
                     ("expander_length", "<u8"), ("expander", column, (EXPANDER_PARENTS,)),
                     ("labels_length", "<u8"), ("labels", label, (size.layers,)), ("encoding", label)])


def _write_lengths(record: np.ndarray, size: Size) -> None:
    """Lengths and tags of records [n]."""
    write_paths(record["data"], [(2,) * size.log_nodes], None)
    write_paths(record["replica"], levels_of(size), None)
    for name in ("c_x", "drg", "expander"):
        record[name]["rows_length"] = size.layers
        write_paths(record[name]["path"], levels_of(size), None)
    record["drg_length"], record["expander_length"] = DRG_PARENTS, EXPANDER_PARENTS
    record["labels_length"] = size.layers
    for name in ("labels", "encoding"):
        record[name]["parents_length"] = LABEL_PARENTS


def _size_of(data: bytes, path) -> Size:
    """From the length of the first path in tree D."""
    at = 16 + 4 + 64        # counts of partitions and challenges, tag, root and leaf
    length = int.from_bytes(data[at:at + 8], "little")
    size = SIZES.get(32 << length) if len(data) >= at + 8 and length < 40 else None
    if size is None:
        raise fail(Exit.INPUT, _OPERATION, path, "JSON, or supraseal's binary of a sector size that there is",
                   f"{len(data)} bytes that are neither")
    return size


def parse(data: bytes, path) -> C1:
    """Raises CuzkError (INPUT)."""
    size = _size_of(data, path)
    partitions, challenges = int.from_bytes(data[:8], "little"), size.porep_challenges
    allowed = (size.porep_partitions, size.porep_ni_partitions)
    if partitions not in allowed:
        raise fail(Exit.INPUT, f"{_OPERATION}: its partitions", path,
                   " or ".join(map(str, allowed)) + f" for {size.name}", str(partitions))
    part = np.dtype([("count", "<u8"), ("proofs", _record_type(size), (challenges,))])
    whole = np.dtype([("count", "<u8"), ("parts", part, (partitions,)), *((name, "S32") for name in _TAIL)])
    if len(data) != whole.itemsize:
        raise fail(Exit.INPUT, _OPERATION, path, f"{whole.itemsize} bytes for {partitions} partitions of {size.name}",
                   f"{len(data)} bytes", "is the file complete?")
    counts = np.frombuffer(data, part, partitions, 8)
    for k in np.flatnonzero(counts["count"] != challenges)[:1]:
        raise fail(Exit.INPUT, f"{_OPERATION}, partition {k}: its challenges", path, f"{challenges} for {size.name}",
                   str(counts["count"][k]))
    records = np.ascontiguousarray(counts["proofs"].reshape(-1))
    expected = records.copy()
    _write_lengths(expected, size)
    wrong = np.flatnonzero(records.view(np.uint8) != expected.view(np.uint8))
    if len(wrong):
        challenge, at = divmod(int(wrong[0]), records.itemsize)
        k, i = divmod(challenge, challenges)
        raise fail(Exit.INPUT, f"{_OPERATION}, partition {k}, challenge {i}: byte {at}", path,
                   f"the lengths of a sector of {size.name}", "another length or tag")
    del expected
    columns = np.concatenate([records["c_x"][:, None], records["drg"], records["expander"]], axis=1)
    labels = np.concatenate([records["labels"], records["encoding"][:, None]], axis=1)
    proofs = Proofs(read_paths(records["data"], [(2,) * size.log_nodes]),
                    read_paths(records["replica"], levels_of(size)),
                    read_paths(columns.reshape(-1)["path"], levels_of(size)), columns["index"].astype(np.int64),
                    columns["rows"].copy(), labels["parents"].copy(), labels["layer"].astype(np.int64),
                    labels["node"].astype(np.int64))
    tail = memoryview(data)[-32 * len(_TAIL):]
    facts = Facts(**{name: bytes(tail[32 * i:32 * i + 32]) for i, name in enumerate(_TAIL)})
    return C1(size, None, partitions, proofs, facts, None)
