"""Merkle trees of a sector: in memory, or on disk with the lowest rows missing.

Both give a root and, for many leaves at once, the siblings on the way up, level by level. Hashes are functions from
words uint64[n, arity, 4] to uint64[n, 4].
"""
from __future__ import annotations

import hashlib
from typing import Callable, Sequence

import numpy as np

from ..errors import CuzkError, Exit, fail
from .files import NODE, SectorFile

Hash = Callable[[np.ndarray], np.ndarray]

_BATCH = 1 << 20        # leaves of segments that are hashed again at once: 32 MiB
_MOST_DISCARDED = 5     # rows; a segment is then 8^6 leaves, 8 MiB, for every challenge


def sha_pairs(pairs: np.ndarray) -> np.ndarray:
    """Tree D's hash: SHA-256 of two nodes, the top two bits cleared (filecoin-hashers src/sha256.rs)."""
    data = np.ascontiguousarray(pairs).tobytes()
    digests = b"".join([hashlib.sha256(data[i:i + 64]).digest() for i in range(0, len(data), 64)])
    words = np.frombuffer(digests, "<u8").reshape(-1, 4).copy()
    words[:, 3] &= np.uint64((1 << 62) - 1)
    return words


def _others(nodes: np.ndarray, position: np.ndarray) -> np.ndarray:
    """nodes [n, arity, 4] without the one at `position` [n] -> [n, arity − 1, 4]."""
    n, arity, _ = nodes.shape
    keep = np.arange(arity)[None, :] != position[:, None]
    return nodes[keep].reshape(n, arity - 1, 4)


class Tree:
    """A whole tree in memory: `levels[0]` are the leaves, `levels[-1]` the root."""

    def __init__(self, leaves: np.ndarray, arities: Sequence[int], hash: Hash):
        self.arities, self.levels = tuple(arities), [leaves]
        for arity in arities:
            self.levels.append(hash(self.levels[-1].reshape(-1, arity, 4)))

    @property
    def root(self) -> np.ndarray:
        return self.levels[-1][0]

    def leaves(self, index: np.ndarray) -> np.ndarray:
        return self.levels[0][index]

    def siblings(self, index: np.ndarray) -> np.ndarray:
        """[n] leaf indices -> [n, Σ(arity − 1), 4]."""
        parts = []
        for level, arity in zip(self.levels, self.arities):
            index, position = np.divmod(index, arity)
            parts.append(_others(level.reshape(-1, arity, 4)[index], position))
        return np.concatenate(parts, axis=1)


class TreeFile:
    """A binary tree stored whole: all leaves, then row by row, the root last (merkletree src/store)."""

    def __init__(self, file: SectorFile, log_leaves: int):
        self.file, self.log_leaves = file, log_leaves

    def row(self, height: int) -> int:
        """Index of the first node of a row, 0 for the leaves."""
        return (2 << self.log_leaves) - (2 << (self.log_leaves - height))

    @property
    def root(self) -> np.ndarray:
        return self.file.read_nodes(self.row(self.log_leaves), 1)[0]

    def nodes(self, height: int, first: int, count: int) -> np.ndarray:
        return self.file.read_nodes(self.row(height) + first, count)

    def leaves(self, index: np.ndarray) -> np.ndarray:
        return np.concatenate([self.file.read_nodes(int(i), 1) for i in index])

    def siblings(self, index: np.ndarray) -> np.ndarray:
        """[n] leaf indices -> [n, log_leaves, 4]."""
        return np.stack([
            np.concatenate([self.nodes(height, (int(i) >> height) ^ 1, 1) for height in range(self.log_leaves)])
            for i in index])


def cached_nodes(base_leaves: int, discarded: int) -> int:
    """Nodes in a tree-r-last file: all rows but the leaves and `discarded` more."""
    total, row = 0, base_leaves
    for height in range(base_leaves.bit_length() // 3 + 1):
        if height > discarded:
            total += row
        row //= 8
    return total


def discarded_rows(path, size: int, base_leaves: int) -> int:
    """rows_to_discard, as a tree-r-last file's size tells it. Raises CuzkError (INPUT) where none gives the size."""
    rows = base_leaves.bit_length() // 3 + 1        # base_leaves is a power of 8
    possible = {cached_nodes(base_leaves, d) * NODE: d for d in range(rows - 1)}
    if size not in possible:
        raise fail(Exit.INPUT, "check the size", path, " or ".join(str(s) for s in sorted(possible)) + " bytes",
                   f"{size} bytes", "rebuild it from the replica, or remove it")
    return possible[size]


class CachedTree:
    """Tree R of a large sector: the leaves in the replica, the upper rows of each base tree in a file of its own, the
    roots above the base trees nowhere (storage-proofs-core src/merkle/builders.rs). Missing rows are hashed again, per
    segment; raises CuzkError (INPUT) for files of more rows missing than segments of 8 MiB make up for."""

    def __init__(self, replica: SectorFile, files: Sequence[SectorFile], nodes: int, arities: Sequence[int],
                 hash: Hash):
        self.replica, self.files, self.hash = replica, files, hash
        self.base_leaves = nodes // len(files)
        self.base_height = (self.base_leaves.bit_length() - 1) // 3
        self.discarded = [discarded_rows(f.path, f.size, self.base_leaves) for f in files]
        problems = [fail(Exit.INPUT, "check the size", f.path, f"at most {_MOST_DISCARDED} rows discarded",
                         f"{missing} rows ({f.size} bytes)",
                         "cut off? rebuild it: update_tree_r_cache rebuild").problems[0]
                    for f, missing in zip(files, self.discarded) if missing > _MOST_DISCARDED]
        if problems:
            raise CuzkError(*problems)
        base_roots = np.concatenate([f.read_nodes(f.nodes - 1, 1) for f in files])
        self.top = Tree(base_roots, arities[self.base_height:], hash)

    @property
    def root(self) -> np.ndarray:
        return self.top.root

    def leaves(self, index: np.ndarray) -> np.ndarray:
        return np.concatenate([self.replica.read_nodes(int(i), 1) for i in index])

    def _row(self, tree: int, height: int) -> int:
        """Position of a row in a base tree's file."""
        return sum(self.base_leaves >> (3 * h) for h in range(self.discarded[tree] + 1, height))

    def siblings(self, index: np.ndarray) -> np.ndarray:
        """[n] leaf indices -> [n, Σ(arity − 1), 4]. Raises CuzkError (INPUT) where cached rows and replica differ."""
        tree, local = np.divmod(index, self.base_leaves)
        out = np.empty((len(index), 7 * self.base_height, 4), np.uint64)
        missing = np.array(self.discarded)[tree]
        for rows in np.unique(missing):
            chosen, piece = np.flatnonzero(missing == rows), max(1, _BATCH >> 3 * (int(rows) + 1))
            for start in range(0, len(chosen), piece):
                part = chosen[start:start + piece]
                out[part] = self._base_siblings(tree[part], local[part], int(rows))
        if self.top.arities:
            out = np.concatenate([out, self.top.siblings(tree)], axis=1)
        return out

    def _base_siblings(self, tree: np.ndarray, local: np.ndarray, missing: int) -> np.ndarray:
        """Siblings within the base trees, of leaves whose files lack `missing` rows: [n, 7 · base height, 4]."""
        n, size = len(tree), 8 ** (missing + 1)
        out = np.empty((n, 7 * self.base_height, 4), np.uint64)
        segment, at = np.divmod(local, size)
        first = tree * self.base_leaves + segment * size
        level = np.stack([self.replica.read_nodes(int(f), size) for f in first])
        for height in range(missing + 1):
            groups = level.reshape(n, -1, 8, 4)
            at, position = np.divmod(at, 8)
            out[:, 7 * height:7 * height + 7] = _others(groups[np.arange(n), at], position)
            level = self.hash(groups.reshape(-1, 8, 4)).reshape(n, -1, 4)
        for i in range(n):
            t, file, at_height = int(tree[i]), self.files[tree[i]], int(segment[i])
            stored = file.read_nodes(self._row(t, missing + 1) + at_height, 1)[0]
            if (stored != level[i, 0]).any():
                raise fail(Exit.INPUT, f"compare node {at_height} of row {missing + 1} with the replica", file.path,
                           level[i, 0].tobytes().hex(), stored.tobytes().hex(),
                           f"this file or {self.replica.path} is damaged")
            for height in range(missing + 1, self.base_height):
                at_height, position = divmod(at_height, 8)
                nodes = file.read_nodes(self._row(t, height) + 8 * at_height, 8)
                out[i, 7 * height:7 * height + 7] = np.delete(nodes, position, axis=0)
        return out
