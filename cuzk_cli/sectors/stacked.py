"""PoRep's vanilla proofs: challenges, and the check that a partition's proofs hold.

Source: rust-fil-proofs storage-proofs-porep src/stacked/vanilla/{challenges,params,proof_scheme,create_label}.rs.
"""
from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, Problem
from ..protocol import chacha
from ..protocol.fr import R_ORDER
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import (
    DRG_PARENTS, LABEL_PARENTS, NON_INTERACTIVE, REGISTERED, SYNTHETIC, Registered, Size)
from . import graph
from .trees import Hash, sha_pairs
from .vanilla import Paths, climb, not_below_r, positions

_SYNTHETIC_CHALLENGES = 1 << 18


class Facts(NamedTuple):
    """What is public of a PoRep, 32 bytes each."""

    replica_id: bytes
    comm_r: bytes
    comm_d: bytes
    seed: bytes
    ticket: bytes


class Proofs(NamedTuple):
    """Vanilla proofs of n challenges. Columns: the challenged node's, 6 DRG parents', 8 expander parents'."""

    data: Paths                 # tree D, [n]
    replica: Paths              # tree R, [n]
    columns: Paths              # tree C, [15 n]
    column_index: np.ndarray    # int64[n, 15]
    column_rows: np.ndarray     # uint64[n, 15, layers, 4]
    label_parents: np.ndarray   # uint64[n, layers + 1, 37, 4], the last for the encoding
    label_layer: np.ndarray     # int64[n, layers + 1]
    label_node: np.ndarray      # int64[n, layers + 1]

    def part(self, first: int, count: int) -> "Proofs":
        """Those of challenges first .. first + count − 1."""
        wide = 1 + graph.PARENTS
        cut = lambda a, each=1: a[first * each:(first + count) * each]
        return Proofs(*(Paths(*(cut(a, wide if paths is self.columns else 1) for a in paths)) for paths in self[:3]),
                      *(cut(a) for a in self[3:]))


class C1(NamedTuple):
    """What an output of commit phase 1 holds."""

    size: Size
    registered: Registered | None   # None where its form does not say
    partitions: int
    proofs: Proofs                  # of all partitions, one after another
    facts: Facts
    sector: int | None              # its number, where the form says


def partitions(version: str, size: Size) -> int:
    """Of a PoRep of this version."""
    return size.porep_ni_partitions if version == NON_INTERACTIVE else size.porep_partitions


def replica_id(prover_id: bytes, sector: int, ticket: bytes, comm_d: bytes, porep_id: bytes) -> bytes:
    """What binds a replica to its sector (params.rs, generate_replica_id)."""
    digest = bytearray(hashlib.sha256(prover_id + sector.to_bytes(8, "big") + ticket + comm_d + porep_id).digest())
    digest[31] &= 0x3F
    return bytes(digest)


def challenges(version: str, size: Size, facts: Facts, partition: int) -> np.ndarray:
    """Nodes that a partition proves, int64[challenges]; never node 0."""
    count = size.porep_challenges
    numbers = range(partition * count, (partition + 1) * count)
    if version == SYNTHETIC:
        return _synthetic(size.nodes, facts, numbers, min(size.nodes, _SYNTHETIC_CHALLENGES))
    if version == NON_INTERACTIVE:
        state = hashlib.sha256(b"filecoin.io|PoRep|1|NonInteractive|1" + facts.replica_id + facts.comm_r)
    else:
        state = hashlib.sha256(facts.replica_id + facts.seed)
    out = []
    for number in numbers:
        digest = state.copy()
        digest.update(number.to_bytes(4, "little"))
        out.append(_node(digest.digest(), size.nodes))
    return np.array(out, np.int64)


def _node(random: bytes, nodes: int) -> int:
    return int.from_bytes(random, "little") % (nodes - 1) + 1


def _synthetic(nodes: int, facts: Facts, numbers: range, candidates: int) -> np.ndarray:
    """The seed selects among candidates that replica_id and comm_r generate, both by ChaCha20."""
    def stream(tag: bytes, data: bytes, block: np.ndarray) -> np.ndarray:
        """uint32[n, 16]: the given blocks of the keystream."""
        key = hashlib.blake2b(facts.replica_id + data, key=b"filecoin.io|PoRep|1|Synthetic|1|" + tag, digest_size=32)
        tails = np.empty((len(block), 4), np.uint32)
        tails[:, 0], tails[:, 1:] = block, np.frombuffer(b"synth-porep\0", "<u4")
        return chacha.blocks(np.frombuffer(key.digest(), "<u4")[None], tails, 20)

    words = np.arange(numbers.start, numbers.stop)
    selection = stream(b"Selection", facts.seed, words // 16)[np.arange(len(words)), words % 16]
    chosen = selection.astype(np.int64) % candidates
    generated = stream(b"Generation", facts.comm_r, chosen // 2)       # 32 bytes each
    halves = generated.reshape(-1, 2, 8)[np.arange(len(chosen)), chosen % 2]
    return np.array([_node(half.tobytes(), nodes) for half in halves], np.int64)


def public_inputs(facts: Facts, challenged: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """replica_id, comm_d, comm_r, then of each challenge c: c, its 14 parents, c, c, c. Words uint64[n, 4]."""
    head = np.frombuffer(facts.replica_id + facts.comm_d + facts.comm_r, "<u8").reshape(3, 4)
    c = challenged[:, None]
    tail = np.zeros((challenged.size * (4 + parents.shape[1]), 4), np.uint64)
    tail[:, 0] = np.concatenate([c, parents, c, c, c], axis=1).reshape(-1)
    return np.concatenate([head, tail])


def recognise(size: Size, proofs: Proofs, facts: Facts, porep_id: bytes | None = None) -> str | None:
    """The version whose first challenge and its parents are those of the proofs, None for none."""
    for version in REGISTERED["porep"]:
        challenged = challenges(version, size, facts, 0)[:1]
        found = graph.parents(size, porep_id or Registered("porep", version, size).porep_id, version, challenged)
        if (proofs.column_index[0] == np.concatenate([challenged, found[0]])).all():
            return version
    return None


def check(proofs: Proofs, partition: int, facts: Facts, challenged: np.ndarray, parents: np.ndarray, size: Size,
          hash: Hash = poseidon_batch, path=None) -> None:
    """Raise CuzkError (INPUT) with everything in a partition's vanilla proofs that does not hold.

    challenged int64[n] and parents int64[n, 14]: what they must be of. hash: Poseidon of the arities of tree R.
    """
    problems: list[Problem] = []

    def wrong(what: str, expected=None, actual=None, challenge: int | None = None) -> None:
        which = "" if challenge is None else f", challenge {challenge}"
        text = lambda v: v.tobytes().hex() if isinstance(v, np.ndarray) else v
        problems.append(Problem(Exit.INPUT, f"check the vanilla proof of partition {partition}{which}: {what}",
                                None if path is None else str(path), text(expected), text(actual)))

    def finish() -> None:
        if problems:
            raise CuzkError(*problems[:20])

    no_elements(proofs, wrong)
    finish()
    indices = np.concatenate([challenged[:, None], parents], axis=1)
    for i, j in np.argwhere(proofs.column_index != indices)[:1]:
        wrong(f"its {_column(j)} is another node", str(indices[i, j]), str(proofs.column_index[i, j]), i)
    for i, j in np.argwhere(proofs.label_node != challenged[:, None])[:1]:
        wrong(f"label {j + 1} is another node's", str(challenged[i]), str(proofs.label_node[i, j]), i)
    layers = np.array([*range(1, size.layers + 1), size.layers])
    for i, j in np.argwhere(proofs.label_layer != layers)[:1]:
        wrong(f"label {j + 1} is of another layer", str(layers[j]), str(proofs.label_layer[i, j]), i)
    finish()

    binary = (2,) * size.log_nodes
    for name, paths, arities, hashing, nodes in (
            ("tree D", proofs.data, binary, sha_pairs, challenged),
            ("tree R", proofs.replica, size.arities, hash, challenged),
            ("tree C", proofs.columns, size.arities, hash, indices.reshape(-1))):
        each = len(nodes) // len(challenged)
        of = lambda at: "" if each == 1 else f", {_column(at % each)},"
        off = (paths.position != positions(nodes, arities)).any(axis=1)
        for at in np.flatnonzero(off)[:1]:
            wrong(f"the path in {name}{of(at)} is for another leaf than {nodes[at]}", challenge=at // each)
        if not off.any():
            for at in np.flatnonzero((climb(paths, arities, hashing) != paths.root).any(axis=1))[:1]:
                wrong(f"the path in {name}{of(at)} does not lead to its root", challenge=at // each)
        for at in np.flatnonzero((paths.root != paths.root[0]).any(axis=1))[:1]:
            wrong(f"{name}{of(at)} has another root than for the first path", paths.root[0], paths.root[at], at // each)
    if proofs.data.root[0].tobytes() != facts.comm_d:
        wrong("the root of tree D is not comm_d", facts.comm_d.hex(), proofs.data.root[0])
    found = poseidon_batch(np.stack([proofs.columns.root[0], proofs.replica.root[0]])[None])[0]
    if found.tobytes() != facts.comm_r:
        wrong("the roots of trees C and R do not give comm_r", facts.comm_r.hex(), found)
    hashes = poseidon_batch(proofs.column_rows.reshape(-1, size.layers, 4))
    for at in np.flatnonzero((hashes != proofs.columns.leaf).any(axis=1))[:1]:
        i, j = divmod(int(at), 1 + graph.PARENTS)
        wrong(f"the hash of the {_column(j)}'s column is not its leaf in tree C", proofs.columns.leaf[at], hashes[at],
              i)
    finish()
    _check_labels(proofs, facts, challenged, size, wrong)
    finish()


def no_elements(proofs: Proofs, wrong) -> None:
    """Call wrong(what, expected, actual, challenge) for values that are no field elements."""
    n = len(proofs.column_index)
    named = [(f"{field} in tree {tree}", words.reshape(n, -1, 4))
             for tree, paths in (("D", proofs.data), ("R", proofs.replica), ("C", proofs.columns))
             for field, words in (("root", paths.root), ("leaf", paths.leaf), ("sibling", paths.siblings))]
    named += [("row of a column", proofs.column_rows.reshape(n, -1, 4)),
              ("parent of a label", proofs.label_parents.reshape(n, -1, 4))]
    for what, words in named:
        if (words[..., 3] >= np.uint64(R_ORDER >> 192)).any():
            for i, j in np.argwhere(not_below_r(words))[:1]:
                wrong(f"{what} is no field element", "a number below the group order", words[i, j], i)


def _column(j: int) -> str:
    if j == 0:
        return "challenged node"
    return f"DRG parent {j - 1}" if j <= DRG_PARENTS else f"expander parent {j - 1 - DRG_PARENTS}"


def label(replica: bytes, layer: int, node: int, parents: bytes) -> bytes:
    """SHA-256 of replica_id, layer, node and 37 parents' labels, cut to 254 bits (create_label/single.rs)."""
    head = replica + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    digest = bytearray(hashlib.sha256(head + parents).digest())
    digest[31] &= 0x3F
    return bytes(digest)


def _check_labels(proofs: Proofs, facts: Facts, challenged: np.ndarray, size: Size, wrong) -> None:
    """Labels follow from the parents' columns, and the replica from the last label."""
    rows, layers = proofs.column_rows, size.layers
    drg, expander = rows[:, 1:1 + DRG_PARENTS], rows[:, 1 + DRG_PARENTS:]
    repeat = lambda given: np.tile(given, (1, LABEL_PARENTS // given.shape[1] + 1, 1))[:, :LABEL_PARENTS]
    for layer in range(1, layers + 2):              # the last stands for the encoding
        at = min(layer, layers) - 1
        parents = drg[:, :, at] if at == 0 else np.concatenate([drg[:, :, at], expander[:, :, at - 1]], axis=1)
        parents = repeat(parents)
        for i, j in np.argwhere((proofs.label_parents[:, layer - 1] != parents).any(axis=2))[:1]:
            what = "the encoding's key" if layer > layers else f"label {layer}"
            wrong(f"parent {j} of {what} is not in its column", parents[i, j], proofs.label_parents[i, layer - 1, j], i)
        if layer > layers:
            break
        found = [label(facts.replica_id, layer, node, parents[i].tobytes())
                 for i, node in enumerate(challenged.tolist())]
        expected = np.frombuffer(b"".join(found), "<u8").reshape(-1, 4)
        for i in np.flatnonzero((expected != rows[:, 0, layer - 1]).any(axis=1))[:1]:
            wrong(f"label {layer} is not the hash of its parents", expected[i], rows[i, 0, layer - 1], i)
    for i in range(len(challenged)):
        key, data, node = (int.from_bytes(v.tobytes(), "little") for v in
                           (rows[i, 0, layers - 1], proofs.data.leaf[i], proofs.replica.leaf[i]))
        if (key + data) % R_ORDER != node:
            wrong("the replica's node is not label + data", challenge=i)
            break
