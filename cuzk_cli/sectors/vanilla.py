"""SnapDeals vanilla proofs: challenges, proofs from trees, and the check that they hold.

Source: rust-fil-proofs storage-proofs-update src/{challenges,vanilla}.rs.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, Problem
from ..protocol.compiled import njit
from ..protocol.fr import R_ORDER, add_mod, from_mont, load, mont_mul, store, to_ints, to_mont
from ..protocol.poseidon import TAG_RANDOMNESS, poseidon_batch
from ..protocol.table import Size
from .trees import Hash, Tree, sha_pairs

CAPACITY = 254      # random bits of a digest


class Commitments(NamedTuple):
    """The public facts of a sector update, 32 bytes each."""

    comm_r_old: bytes
    comm_r_new: bytes
    comm_d_new: bytes


class Paths(NamedTuple):
    """Merkle proofs of one tree for every challenge of a partition."""

    root: np.ndarray        # uint64[challenges, 4]; all the same in a good proof
    leaf: np.ndarray        # uint64[challenges, 4]
    siblings: np.ndarray    # uint64[challenges, Σ(arity − 1), 4], leaves' level first
    position: np.ndarray    # int64[challenges, levels], of the path's node among its siblings


class PartitionProof(NamedTuple):
    """The vanilla proof of one partition."""

    comm_c: np.ndarray      # uint64[4]
    apex_leaves: np.ndarray # uint64[apex, 4]
    r_old: Paths
    d_new: Paths
    r_new: Paths


def _words(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<u8")


def phi(commitments: Commitments) -> np.ndarray:
    """H(comm_d_new, comm_r_old), words[4]: what the encoding's randomness hangs on."""
    pair = np.stack([_words(commitments.comm_d_new), _words(commitments.comm_r_old)])
    return poseidon_batch(pair[None], TAG_RANDOMNESS)[0]


def rhos(commitments: Commitments, high: np.ndarray) -> np.ndarray:
    """H(phi, high) for the top bits of node indices, int[n] -> words[n, 4]."""
    pairs = np.zeros((len(high), 2, 4), np.uint64)
    pairs[:, 0], pairs[:, 1, 0] = phi(commitments), high
    return poseidon_batch(pairs, TAG_RANDOMNESS)


def challenges(size: Size, comm_r_new: bytes, partition: int) -> np.ndarray:
    """Leaf indices that a partition proves, int64[challenges]."""
    log_partitions = size.snap_partitions.bit_length() - 1
    bits = size.log_nodes - log_partitions
    each = CAPACITY // bits
    digests = math.ceil(size.snap_challenges / each)
    pairs = np.zeros((digests, 2, 4), np.uint64)
    pairs[:, 0], pairs[:, 1, 0] = _words(comm_r_new), partition * digests + np.arange(digests)
    out = []
    for digest in to_ints(poseidon_batch(pairs, TAG_RANDOMNESS)):
        for i in range(min(each, size.snap_challenges - len(out))):
            out.append((digest >> (i * bits)) & ((1 << bits) - 1) | partition << bits)
    return np.array(out, np.int64)


def positions(index: np.ndarray, arities) -> np.ndarray:
    """The position at every level of a path from a leaf, int64[n, levels]."""
    out = np.empty((len(index), len(arities)), np.int64)
    for level, arity in enumerate(arities):
        index, out[:, level] = np.divmod(index, arity)
    return out


def _paths(tree, index: np.ndarray, arities) -> Paths:
    root = np.broadcast_to(tree.root, (len(index), 4))
    return Paths(root, tree.leaves(index), tree.siblings(index), positions(index, arities))


def make(size: Size, comm_c: bytes, commitments: Commitments, tree_r_old, tree_d_new, tree_r_new,
         partition: int) -> PartitionProof:
    """Prove one partition from a sector's trees. Raises CuzkError (INPUT) for what cannot be read."""
    index = challenges(size, commitments.comm_r_new, partition)
    height = size.log_nodes - (size.snap_partitions * size.snap_apex_leaves).bit_length() + 1
    apex = tree_d_new.nodes(height, partition * size.snap_apex_leaves, size.snap_apex_leaves)
    binary = (2,) * size.log_nodes
    return PartitionProof(_words(comm_c), apex, _paths(tree_r_old, index, size.arities),
                          _paths(tree_d_new, index, binary), _paths(tree_r_new, index, size.arities))


@njit
def _encode_rows(old, data, rho, which):
    out = np.empty_like(old)
    for i in range(len(old)):
        factor = to_mont(load(rho, which[i]))
        store(out, i, from_mont(add_mod(to_mont(load(old, i)), mont_mul(to_mont(load(data, i)), factor))))
    return out


def encode(old: np.ndarray, data: np.ndarray, rho: np.ndarray, which: np.ndarray) -> np.ndarray:
    """New replica nodes: old + data · rho[which], words[n, 4]."""
    return _encode_rows(np.ascontiguousarray(old), np.ascontiguousarray(data), np.ascontiguousarray(rho), which)


def not_below_r(words: np.ndarray) -> np.ndarray:
    """bool[...]: which of words[..., 4] are no field elements."""
    above, equal = np.zeros(words.shape[:-1], bool), np.ones(words.shape[:-1], bool)
    for i in range(3, -1, -1):
        limit = np.uint64(R_ORDER >> 64 * i & 0xFFFF_FFFF_FFFF_FFFF)
        above |= equal & (words[..., i] > limit)
        equal &= words[..., i] == limit
    return above | equal


def climb(paths: Paths, arities, hash: Hash, levels: int | None = None) -> np.ndarray:
    """Hash every path from its leaf, words[n, 4]; `levels`: stop below the root."""
    node, used = paths.leaf, 0
    rows = np.arange(len(node))
    for level, arity in enumerate(arities[:levels]):
        children = np.empty((len(node), arity, 4), np.uint64)
        keep = np.arange(arity)[None, :] != paths.position[:, level, None]
        children[keep] = paths.siblings[:, used:used + arity - 1].reshape(-1, 4)
        children[rows, paths.position[:, level]] = node
        node, used = hash(children), used + arity - 1
    return node


def check(proof: PartitionProof, partition: int, commitments: Commitments, size: Size, hash: Hash = poseidon_batch,
          path=None) -> None:
    """Raise CuzkError (INPUT) with everything in a partition's vanilla proof that does not hold.

    path: the file it came from, for the message.
    """
    problems: list[Problem] = []

    def wrong(what: str, expected=None, actual=None, challenge: int | None = None) -> None:
        which = "" if challenge is None else f", challenge {challenge}"
        where = f"check the vanilla proof of partition {partition}{which}"
        text = lambda v: v.tobytes().hex() if isinstance(v, np.ndarray) else v
        problems.append(Problem(Exit.INPUT, f"{where}: {what}", None if path is None else str(path), text(expected),
                                text(actual)))

    def finish() -> None:
        if problems:
            raise CuzkError(*problems[:20])

    below = "a number below the group order"
    if not_below_r(proof.comm_c):
        wrong("comm_c is no field element", below, proof.comm_c)
    for i in np.flatnonzero(not_below_r(proof.apex_leaves))[:1]:
        wrong(f"apex leaf {i} is no field element", below, proof.apex_leaves[i])
    for name, tree in (("old tree R", proof.r_old), ("tree D", proof.d_new), ("new tree R", proof.r_new)):
        for field, words in (("root", tree.root[:, None]), ("leaf", tree.leaf[:, None]), ("sibling", tree.siblings)):
            for i, j in np.argwhere(not_below_r(words))[:1]:
                which = f"sibling {j}" if field == "sibling" else field
                wrong(f"{which} in {name} is no field element", below, words[i, j], i)
    finish()

    index = challenges(size, commitments.comm_r_new, partition)
    binary = (2,) * size.log_nodes
    for name, paths, arities, hashing in (("old tree R", proof.r_old, size.arities, hash),
                                          ("tree D", proof.d_new, binary, sha_pairs),
                                          ("new tree R", proof.r_new, size.arities, hash)):
        off = (paths.position != positions(index, arities)).any(axis=1)
        for i in np.flatnonzero(off)[:1]:
            actual = sum(int(p) * math.prod(arities[:k]) for k, p in enumerate(paths.position[i]))
            wrong(f"the path in {name} is for another leaf", str(index[i]), str(actual), i)
        if off.any():
            continue
        differ = (climb(paths, arities, hashing) != paths.root).any(axis=1)
        for i in np.flatnonzero(differ)[:1]:
            wrong(f"the path in {name} does not lead to its root", challenge=i)
        apart = (paths.root != paths.root[0]).any(axis=1)
        for i in np.flatnonzero(apart)[:1]:
            wrong(f"{name} has another root than for challenge 0", paths.root[0], paths.root[i], i)
    for name, root, comm in (("comm_r_old", proof.r_old.root[0], commitments.comm_r_old),
                             ("comm_r_new", proof.r_new.root[0], commitments.comm_r_new)):
        found = poseidon_batch(np.stack([proof.comm_c, root])[None])[0]
        if found.tobytes() != comm:
            wrong(f"comm_c and the root do not give {name}", comm.hex(), found)
    if proof.d_new.root[0].tobytes() != commitments.comm_d_new:
        wrong("the root of tree D is not comm_d_new", commitments.comm_d_new.hex(), proof.d_new.root[0])
    finish()

    high = index >> (size.log_nodes - size.snap_h)
    expected = encode(proof.r_old.leaf, proof.d_new.leaf, rhos(commitments, high), np.arange(len(index)))
    for i in np.flatnonzero((expected != proof.r_new.leaf).any(axis=1))[:1]:
        wrong("new leaf is not old leaf + data · rho", expected[i], proof.r_new.leaf[i], i)
    log_apex, log_partitions = size.snap_apex_leaves.bit_length() - 1, size.snap_partitions.bit_length() - 1
    depth = size.log_nodes - log_apex - log_partitions        # levels of tree D below the apex leaves
    reached = climb(proof.d_new, binary, sha_pairs, depth)
    apex = proof.apex_leaves[(index >> depth) & (size.snap_apex_leaves - 1)]
    for i in np.flatnonzero((reached != apex).any(axis=1))[:1]:
        wrong("the path in tree D does not pass its apex leaf", apex[i], reached[i], i)
    top = Tree(proof.apex_leaves, (2,) * log_apex, sha_pairs).root
    partition_path = Paths(top[None], top[None], proof.d_new.siblings[:1, depth + log_apex:],
                           positions(np.array([partition]), (2,) * log_partitions))
    if climb(partition_path, (2,) * log_partitions, sha_pairs)[0].tobytes() != commitments.comm_d_new:
        wrong("the apex leaves do not lead to comm_d_new")
    finish()
