"""The SnapDeals circuit (EmptySectorUpdate): storage-proofs-update src/{circuit,gadgets}.rs.

Order of the parts, which is the order of rows and variables:

    k and h_select ─ comm_r_old, comm_d_new, comm_r_new ─ phi ─ comm_c, roots, apex leaves, partition path
    ─ comm_r checks ─ apex tree up to comm_d_new ─ challenge bits
    ─ for each challenge: high bits, rho, label, path in old tree R, path in new tree R, apex leaf, path in tree D
"""
from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ..protocol import poseidon
from . import gadgets
from .poseidon import poseidon_hash
from .sha256 import CAPACITY, tree_d_hash
from .structure import Structure, Variable
from .template import ONE, Builder, Template, combine, packed
from .witness import Assignment, assign

H_SELECT_BITS = 6


class Shape(NamedTuple):
    """What a sector size makes of the circuit."""

    name: str                   # "2KiB"
    log_nodes: int
    partitions: int
    challenges: int             # per partition
    apex_leaves: int
    hs: tuple                   # the heights that h_select may select
    arities: tuple              # of tree R's levels, leaves first


class PartitionWitness(NamedTuple):
    """One partition's vanilla data; words are uint64[..., 4]. Paths list siblings level by level, leaves first."""

    k_and_h_select: int         # partition index and selected height, packed
    comm_r_old: np.ndarray      # [4]
    comm_d_new: np.ndarray      # [4]
    comm_r_new: np.ndarray      # [4]
    comm_c: np.ndarray          # [4]
    root_r_old: np.ndarray      # [4]
    root_r_new: np.ndarray      # [4]
    apex_leaves: np.ndarray     # [apex_leaves, 4]
    leaf_r_old: np.ndarray      # [challenges, 4]
    leaf_d_new: np.ndarray      # [challenges, 4]
    path_r_old: np.ndarray      # [challenges, siblings of all levels, 4]
    path_r_new: np.ndarray      # [challenges, siblings of all levels, 4]
    path_d_new: np.ndarray      # [challenges, log_nodes, 4]


def _public_selector(shape: Shape, log_partitions: int, table: dict) -> Template:
    """k_and_h_select, made public, its bits, and the partition index. Variables: it, the bits, the index."""
    builder = Builder("k_and_h_select", 0, 0, table, inputs=1)
    packed_element = builder.external()
    builder.inputize(packed_element)
    bits = builder.bits_of(packed_element, log_partitions + H_SELECT_BITS)
    builder.enforce(packed(bits), {ONE: 1}, {packed_element: 1})
    gadgets.pack(builder, bits[:log_partitions])
    return builder.finish()


def _digest_index(digests: int, j: int, table: dict) -> Template:
    """Port: the partition index; digests · partition + j."""
    builder = Builder(f"digest_index_{j}", 0, 1, table)
    (partition,) = builder.element_ports
    builder.define(combine({partition: digests}, {ONE: j}), {ONE: 1})
    return builder.finish()


def _digest_bits(table: dict) -> Template:
    """Port: a digest; its 255 bits, Σ 2^i b_i · 1 = digest (gadgets.rs, allocated_num_to_allocated_bits)."""
    builder = Builder("digest_bits", 0, 1, table)
    (digest,) = builder.element_ports
    bits = builder.bits_of(digest, 255)
    builder.enforce(packed(bits), {ONE: 1}, {digest: 1})
    return builder.finish()


def _high_bits(log_nodes: int, hs: tuple, table: dict) -> Template:
    """Ports: challenge bits, h_select bits; the selected number of top bits, packed (gadgets.rs)."""
    builder = Builder("challenge_high_bits", log_nodes + H_SELECT_BITS, 0, table)
    challenge, selectors = builder.bit_ports[:log_nodes], builder.bit_ports[log_nodes:]
    terms = {}
    for h, selector in zip(hs, selectors):
        high = gadgets.pack(builder, challenge[log_nodes - h:])
        terms[builder.define({high: 1}, selector.terms())] = 1
    builder.define(terms, {ONE: 1})
    return builder.finish()


def _label(table: dict) -> Template:
    """Port: rho. leaf_r_old and leaf_d_new from outside; the last variable is leaf_r_new = leaf_r_old
    + leaf_d_new · rho."""
    builder = Builder("label_r_new", 0, 1, table)
    (rho,) = builder.element_ports
    old, data = builder.external(), builder.external()
    product = builder.define({data: 1}, {rho: 1})
    builder.define(combine({old: 1}, {product: 1}), {ONE: 1})
    return builder.finish()


def build(shape: Shape) -> Structure:
    """The constraint system of one partition; all partitions of a sector have the same one."""
    table: dict = {}
    once = lru_cache(maxsize=None)
    level = once(lambda arity: gadgets.merkle_level(arity, poseidon.tag_merkle(arity), table))
    elements = once(lambda count: gadgets.elements(count, table))
    sha, insert_pair, equal = tree_d_hash(table), gadgets.insert_pair(table), gadgets.equal(table)
    randomness = poseidon_hash(2, poseidon.TAG_RANDOMNESS, table)
    log_partitions, log_apex = shape.partitions.bit_length() - 1, shape.apex_leaves.bit_length() - 1

    s = Structure(f"snap {shape.name}", 5, table)
    place = s.place

    def binary_path(bits, element: Variable, siblings, root: Variable) -> None:
        for bit, sibling in zip(bits, siblings, strict=True):
            pair = place(insert_pair, (bit, element, sibling))
            element = place(sha, (pair[0], pair[1]))[-1]
        place(equal, (element, root))

    def octal_path(bits, element: Variable, siblings, root: Variable) -> None:
        bits, siblings = list(bits), list(siblings)
        for arity in shape.arities:
            count = arity.bit_length() - 1
            element = place(level(arity), (*bits[:count], element, *siblings[:arity - 1]))[-1]
            bits, siblings = bits[count:], siblings[arity - 1:]
        place(equal, (element, root))

    selector = place(_public_selector(shape, log_partitions, table))
    k_bits = [selector[1 + i] for i in range(log_partitions)]
    h_bits = [selector[1 + log_partitions + i] for i in range(H_SELECT_BITS)]
    partition = selector[-1]
    public = gadgets.public_element(table)
    comm_r_old, comm_d_new, comm_r_new = (place(public)[0] for _ in range(3))
    phi = place(randomness, (comm_d_new, comm_r_old))[-1]
    private = place(elements(3 + shape.apex_leaves + log_partitions))
    comm_c, root_r_old, root_r_new = (private[i] for i in range(3))
    apex = [private[3 + i] for i in range(shape.apex_leaves)]
    partition_path = [private[3 + shape.apex_leaves + i] for i in range(log_partitions)]
    hash_pair = poseidon_hash(2, poseidon.tag_merkle(2), table)
    for root, comm_r in ((root_r_old, comm_r_old), (root_r_new, comm_r_new)):
        place(equal, (place(hash_pair, (comm_c, root))[-1], comm_r))

    row = apex
    while len(row) > 1:
        row = [place(sha, (row[i], row[i + 1]))[-1] for i in range(0, len(row), 2)]
    binary_path(k_bits, row[0], partition_path, comm_d_new)

    bits_each = shape.log_nodes - log_partitions
    per_digest = CAPACITY // bits_each
    digests = -(-shape.challenges // per_digest)
    to_bits, challenges = _digest_bits(table), []
    for j in range(digests):
        index = place(_digest_index(digests, j, table), (partition,))[0]
        digest = place(to_bits, (place(randomness, (comm_r_new, index))[-1],))
        for i in range(min(per_digest, shape.challenges - len(challenges))):
            challenges.append([digest[i * bits_each + b] for b in range(bits_each)])

    high_bits, label = _high_bits(shape.log_nodes, shape.hs, table), _label(table)
    select = gadgets.select(shape.apex_leaves, table)
    siblings = sum(arity - 1 for arity in shape.arities)
    to_apex = bits_each - log_apex
    for generated in challenges:
        bits = generated + k_bits
        high = place(high_bits, (*bits, *h_bits))[-1]
        rho = place(randomness, (phi, high))[-1]
        labelled = place(label, (rho,))
        leaf_r_old, leaf_d_new, leaf_r_new = labelled[0], labelled[1], labelled[-1]
        for leaf, root in ((leaf_r_old, root_r_old), (leaf_r_new, root_r_new)):
            path = place(elements(siblings))
            octal_path(bits, leaf, [path[i] for i in range(siblings)], root)
        apex_leaf = place(select, (*bits[to_apex:to_apex + log_apex], *apex))[-1]
        path = place(elements(to_apex))
        binary_path(bits[:to_apex], leaf_d_new, [path[i] for i in range(to_apex)], apex_leaf)
    return s.freeze()


def synthesise(structure: Structure, shape: Shape, witness: PartitionWitness) -> Assignment:
    """The assignment of one partition; what does not satisfy the circuit is assigned all the same."""
    w = witness
    log_partitions, log_apex = shape.partitions.bit_length() - 1, shape.apex_leaves.bit_length() - 1
    selector = np.array([[w.k_and_h_select, 0, 0, 0]], np.uint64)
    head = np.stack([w.comm_r_old, w.comm_d_new, w.comm_r_new, w.comm_c, w.root_r_old, w.root_r_new])
    partition_path = w.path_d_new[0, shape.log_nodes - log_partitions:]
    to_apex = shape.log_nodes - log_partitions - log_apex
    per_challenge = np.concatenate(
        [w.leaf_r_old[:, None], w.leaf_d_new[:, None], w.path_r_old, w.path_r_new, w.path_d_new[:, :to_apex]], axis=1)
    return assign(structure, np.concatenate(
        [selector, head, w.apex_leaves, partition_path, per_challenge.reshape(-1, 4)]))
