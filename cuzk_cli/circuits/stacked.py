"""The StackedDRG circuit of PoRep: storage-proofs-porep src/stacked/circuit/{proof,params,create_label,column}.rs.

Order of the parts, which is the order of rows and variables:

    replica_id and its bits ─ comm_d ─ comm_r ─ comm_r_last, comm_c ─ comm_r check
    ─ for each challenge: data leaf and its path in tree D ─ for each of 6 DRG and 8 expander parents: column, its
      hash, path in tree C ─ challenge ─ for each layer: bits of the parents' labels, label ─ encoded leaf ─ its path in
      tree R ─ hash of the labels' column, path in tree C

Every path makes the index of its leaf public (storage-proofs-core src/gadgets/por.rs). A label hashes 20 blocks: one
with the layer in it, 18 of two parents each, one with the last parent; only the first differs from layer to layer.
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..protocol.poseidon import tag_merkle
from ..protocol.table import DRG_PARENTS, EXPANDER_PARENTS, LABEL_PARENTS
from . import gadgets
from .poseidon import permute, poseidon_hash
from .sha256 import CAPACITY, INITIAL, byte_reversed, compress, constant_word, padding, to_bits, tree_d_hash
from .structure import Structure, Variable
from .template import FALSE, ONE, Bit, Builder, Template, combine, packed
from .witness import Assignment, assign

PARENTS = DRG_PARENTS + EXPANDER_PARENTS
ELEMENT_BITS = 255
NODE_BITS = 64


class Shape(NamedTuple):
    """What a sector size makes of the circuit."""

    name: str                   # "2KiB"
    log_nodes: int
    layers: int
    challenges: int             # per partition
    arities: tuple              # of the levels of trees C and R, leaves first

    @property
    def path_externals(self) -> int:
        """Values of one path in tree C or R that come from outside: each level's position and siblings."""
        return sum(self.arities)

    @property
    def inputs(self) -> int:
        """Public inputs with ONE: three commitments; per challenge its index thrice, the challenge, its parents."""
        return 4 + self.challenges * (4 + PARENTS)


class PartitionWitness(NamedTuple):
    """One partition's vanilla data; words are uint64[..., 4]. Paths list siblings level by level, leaves first.

    Parents are the 6 of the DRG, then the 8 of the expander.
    """

    replica_id: np.ndarray          # [4]
    comm_d: np.ndarray              # [4]
    comm_r: np.ndarray              # [4]
    comm_r_last: np.ndarray         # [4]
    comm_c: np.ndarray              # [4]
    challenge: np.ndarray           # uint64[challenges]
    data_leaf: np.ndarray           # [challenges, 4]
    data_position: np.ndarray       # uint64[challenges, log_nodes]
    data_siblings: np.ndarray       # [challenges, log_nodes, 4]
    parent_rows: np.ndarray         # [challenges, 14, layers, 4]
    parent_position: np.ndarray     # uint64[challenges, 14, levels]
    parent_siblings: np.ndarray     # [challenges, 14, Σ(arity − 1), 4]
    replica_position: np.ndarray    # uint64[challenges, levels]
    replica_siblings: np.ndarray    # [challenges, Σ(arity − 1), 4]
    column_position: np.ndarray     # uint64[challenges, levels]
    column_siblings: np.ndarray     # [challenges, Σ(arity − 1), 4]


def _replica_id(table: dict) -> Template:
    """replica_id from outside, public; its bits. Variables: it, the bits."""
    builder = Builder("replica_id", 0, 0, table, inputs=1)
    element = builder.external()
    builder.inputize(element)
    to_bits(builder, element)
    return builder.finish()


def _roots(table: dict) -> Template:
    """Port: comm_r. comm_r_last and comm_c from outside; comm_r is H(comm_c, comm_r_last)."""
    builder = Builder("roots", 0, 1, table)
    (comm_r,) = builder.element_ports
    comm_r_last, comm_c = builder.external(), builder.external()
    builder.enforce({comm_r: 1}, {ONE: 1}, {permute(builder, [comm_c, comm_r_last], tag_merkle(2)): 1})
    return builder.finish()


def _level(arity: int, table: dict) -> Template:
    """Port: an element. Position and siblings from outside; the parent is the last variable."""
    builder = Builder(f"level_{arity}", 0, 1, table)
    (element,) = builder.element_ports
    bits = builder.external_bits(arity.bit_length() - 1)
    row = gadgets.insert(builder, element, [builder.external() for _ in range(arity - 1)], bits)
    permute(builder, row, tag_merkle(arity))
    return builder.finish()


def _pair(table: dict) -> Template:
    """Port: an element. Position and sibling from outside; the ordered pair is the last two variables."""
    builder = Builder("pair", 0, 1, table)
    (element,) = builder.element_ports
    bits = builder.external_bits(1)
    gadgets.insert(builder, element, [builder.external()], bits)
    return builder.finish()


def _index(bits: int, table: dict) -> Template:
    """Ports: bits, least significant first; packed, they are public."""
    builder = Builder(f"index_{bits}", bits, 0, table, inputs=1)
    builder.pack_into_input(builder.bit_ports)
    return builder.finish()


def _challenge(table: dict) -> Template:
    """A 64 bit integer from outside, public. Its bits are the variables."""
    builder = Builder("challenge", 0, 0, table, inputs=1)
    builder.pack_into_input(builder.external_bits(NODE_BITS))
    return builder.finish()


def _bits(table: dict) -> Template:
    """Port: an element. Its bits are the variables."""
    builder = Builder("bits", 0, 1, table)
    to_bits(builder, builder.element_ports[0])
    return builder.finish()


def _encode(table: dict) -> Template:
    """Ports: key, data; key + data."""
    builder = Builder("encode", 0, 2, table)
    key, data = builder.element_ports
    builder.define(combine({key: 1}, {data: 1}), {ONE: 1})
    return builder.finish()


class _Block(NamedTuple):
    """A block of a label's hash; `state` numbers the variables of the state after it, least significant bits first."""

    template: Template
    state: np.ndarray


def _words(bits: list[Bit]) -> list[list[Bit]]:
    """A block's bits, most significant of each word first, as words."""
    return [bits[i:i + 32][::-1] for i in range(0, 512, 32)]


def _finish(builder: Builder, state: list[list[Bit]]) -> _Block:
    first = 1 + builder.ports
    return _Block(builder.finish(), np.array([bit.column - first for word in state for bit in word]))


def _state_ports(ports: list[Bit]) -> list[list[Bit]]:
    return [ports[i:i + 32] for i in range(0, 256, 32)]


def _element(bits: list[Bit]) -> list[Bit]:
    """The 255 bits of an element as 32 bytes of a message."""
    return byte_reversed(bits + [FALSE])


def _first_block(layer: int, table: dict) -> _Block:
    """Ports: bits of replica_id, bits of the node: replica_id ‖ layer ‖ node ‖ zeros."""
    builder = Builder(f"label_{layer}", ELEMENT_BITS + NODE_BITS, 0, table)
    replica_id, node = builder.bit_ports[:ELEMENT_BITS], builder.bit_ports[ELEMENT_BITS:]
    message = _element(replica_id) + constant_word(layer)[::-1] + node[::-1]
    message += [FALSE] * (512 - len(message))
    return _finish(builder, compress(builder, _words(message), [constant_word(v) for v in INITIAL]))


def _parents_block(table: dict) -> _Block:
    """Ports: bits of two parents, bits of the state."""
    builder = Builder("label_parents", 2 * ELEMENT_BITS + 256, 0, table)
    a, b, state = np.split(np.arange(builder.ports), (ELEMENT_BITS, 2 * ELEMENT_BITS))
    a, b, state = ([builder.bit_ports[i] for i in part] for part in (a, b, state))
    return _finish(builder, compress(builder, _words(_element(a) + _element(b)), _state_ports(state)))


def _last_block(table: dict) -> Template:
    """Ports: bits of the last parent, bits of the state. The label, 254 bits of the digest, is the last variable."""
    builder = Builder("label_end", ELEMENT_BITS + 256, 0, table)
    parent, state = builder.bit_ports[:ELEMENT_BITS], builder.bit_ports[ELEMENT_BITS:]
    message = _element(parent) + padding(512 + 256 * LABEL_PARENTS)
    digest = [bit for word in compress(builder, _words(message), _state_ports(state)) for bit in word[::-1]]
    gadgets.pack(builder, byte_reversed(digest)[:CAPACITY])
    return builder.finish()


def build(shape: Shape) -> Structure:
    """The constraint system of one partition; all versions of PoRep of a sector size have the same one."""
    table: dict = {}
    once = lru_cache(maxsize=None)
    level = once(lambda arity: _level(arity, table))
    index = once(lambda bits: _index(bits, table))
    elements = once(lambda count: gadgets.elements(count, table))
    first_block = once(lambda layer: _first_block(layer, table))
    sha, pair, equal, bits_of = tree_d_hash(table), _pair(table), gadgets.equal(table), _bits(table)
    challenge_bits, encode = _challenge(table), _encode(table)
    column_hash = poseidon_hash(shape.layers, tag_merkle(shape.layers), table)
    middle, last = _parents_block(table), _last_block(table)
    all_bits = np.arange(ELEMENT_BITS)

    s = Structure(f"porep {shape.name}", shape.inputs, table)
    place = s.place

    def path(element: Variable, root: Variable, arities: tuple, in_tree_d: bool = False) -> None:
        where = []
        for arity in arities:
            placed = place(pair if in_tree_d else level(arity), (element,))
            where += [placed[i] for i in range(arity.bit_length() - 1)]
            element = place(sha, (placed[-2], placed[-1]))[-1] if in_tree_d else placed[-1]
        place(index(len(where)), where)
        place(equal, (element, root))

    def label(layer: int, node: np.ndarray, parents: list[np.ndarray]) -> Variable:
        repeated = (parents * LABEL_PARENTS)[:LABEL_PARENTS]
        block, ports = first_block(layer), np.concatenate([replica_id_bits, node])
        for i in range(0, LABEL_PARENTS - 1, 2):
            state = place(block.template, ports).take(block.state)
            block, ports = middle, np.concatenate([repeated[i], repeated[i + 1], state])
        state = place(block.template, ports).take(block.state)
        return place(last, np.concatenate([repeated[-1], state]))[-1]

    replica_id_bits = place(_replica_id(table)).take(1 + all_bits)
    public = gadgets.public_element(table)
    comm_d, comm_r = place(public)[0], place(public)[0]
    roots = place(_roots(table), (comm_r,))
    comm_r_last, comm_c = roots[0], roots[1]
    for _ in range(shape.challenges):
        data_leaf = place(elements(1))[0]
        path(data_leaf, comm_d, (2,) * shape.log_nodes, in_tree_d=True)
        columns = []
        for _ in range(PARENTS):
            rows = place(elements(shape.layers))
            columns.append([rows[i] for i in range(shape.layers)])
            path(place(column_hash, columns[-1])[-1], comm_c, shape.arities)
        node = place(challenge_bits).take(np.arange(NODE_BITS))
        column = []
        for layer in range(1, shape.layers + 1):
            parents = [place(bits_of, (rows[layer - 1],)).take(all_bits) for rows in columns[:DRG_PARENTS]]
            if layer > 1:
                parents += [place(bits_of, (rows[layer - 2],)).take(all_bits) for rows in columns[DRG_PARENTS:]]
            column.append(label(layer, node, parents))
        path(place(encode, (column[-1], data_leaf))[-1], comm_r_last, shape.arities)
        path(place(column_hash, column)[-1], comm_c, shape.arities)
    return s.freeze()


def _path(position: np.ndarray, siblings: np.ndarray, arities: tuple) -> np.ndarray:
    """Positions uint64[..., levels] and siblings [..., Σ(arity − 1), 4], in the order of allocation."""
    out = np.zeros((*position.shape[:-1], sum(arities), 4), np.uint64)
    at = used = 0
    for level, arity in enumerate(arities):
        out[..., at, 0] = position[..., level]
        out[..., at + 1:at + arity, :] = siblings[..., used:used + arity - 1, :]
        at, used = at + arity, used + arity - 1
    return out


def synthesise(structure: Structure, shape: Shape, witness: PartitionWitness) -> Assignment:
    """The assignment of one partition; what does not satisfy the circuit is assigned all the same."""
    w, n = witness, shape.challenges
    head = np.stack([w.replica_id, w.comm_d, w.comm_r, w.comm_r_last, w.comm_c])
    parents = np.concatenate([w.parent_rows, _path(w.parent_position, w.parent_siblings, shape.arities)], axis=2)
    node = np.zeros((n, 1, 4), np.uint64)
    node[:, 0, 0] = w.challenge
    per_challenge = np.concatenate(
        [w.data_leaf[:, None], _path(w.data_position, w.data_siblings, (2,) * shape.log_nodes),
         parents.reshape(n, -1, 4), node, _path(w.replica_position, w.replica_siblings, shape.arities),
         _path(w.column_position, w.column_siblings, shape.arities)], axis=1)
    return assign(structure, np.concatenate([head, per_challenge.reshape(-1, 4)]))
