"""PoRep sealed in plain Python: whole small sectors, and of real ones what a few challenges touch.

Data is zero, so that comm_d, and with it the challenges, are known before any label is.
"""
import base64
import hashlib
import json
from typing import NamedTuple

import numpy as np

from cuzk_cli.protocol.poseidon import poseidon_batch
from cuzk_cli.protocol.table import NON_INTERACTIVE, SYNTHETIC, Registered
from cuzk_cli.sectors import graph, stacked
from cuzk_cli.sectors.encoding import levels_of
from cuzk_cli.sectors.stacked import Facts, Proofs
from cuzk_cli.sectors.trees import sha_pairs
from cuzk_cli.sectors.vanilla import Paths, positions


def labels(parents, replica_id: bytes, layers: int, rows: dict) -> dict:
    """{node: its label in every layer} of the nodes 0 … that `parents` {node: 14 of them} has.

    rows: labels of other nodes that are parents. Filled layer by layer, in the order of nodes.
    """
    found = {node: [] for node in parents}
    of = lambda node, layer: (found.get(node) or rows.get(node))[layer]
    for layer in range(layers):
        for node in sorted(parents):
            state = hashlib.sha256(replica_id + (layer + 1).to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20))
            if node:
                given = [of(parent, layer) for parent in parents[node][:6]]
                if layer:
                    given += [of(parent, layer - 1) for parent in parents[node][6:]]
                for i in range(37):
                    state.update(given[i % len(given)])
            digest = bytearray(state.digest())
            digest[31] &= 0x3F
            found[node].append(bytes(digest))
    return found


class Sparse:
    """A tree with most leaves zero."""

    def __init__(self, leaves: dict, arities, hash):
        self.arities, self.levels = arities, []
        index = np.array(sorted(leaves), np.int64)
        values = np.frombuffer(b"".join(leaves[i] for i in index.tolist()), "<u8").reshape(-1, 4)
        default = np.zeros(4, np.uint64)
        for arity in arities:
            self.levels.append((index, values, default))
            above = np.unique(index // arity)
            children = np.broadcast_to(default, (len(above), arity, 4)).copy()
            children[np.searchsorted(above, index // arity), index % arity] = values
            default = hash(np.broadcast_to(default, (1, arity, 4)).copy())[0]
            index, values = above, hash(children)
        self.root = values[0]

    def paths(self, index) -> Paths:
        """Of leaves, int[n]."""
        index = np.asarray(index, np.int64)
        place, siblings, leaf = positions(index, self.arities), [], self._at(0, index)
        root = np.broadcast_to(self.root, (len(index), 4)).copy()
        for level, arity in enumerate(self.arities):
            first = index - index % arity
            siblings.append(np.stack([self._at(level, first + np.where(j < index % arity, j, j + 1))
                                      for j in range(arity - 1)], axis=1))
            index = index // arity
        return Paths(root, leaf, np.concatenate(siblings, axis=1), place)

    def _at(self, level: int, index: np.ndarray) -> np.ndarray:
        known, values, default = self.levels[level]
        at = np.minimum(np.searchsorted(known, index), len(known) - 1)
        return np.where((known[at] == index)[:, None], values[at], default)


class Sealed(NamedTuple):
    """A phase 1 output, and what made it."""

    registered: Registered
    prover_id: bytes
    number: int
    facts: Facts
    partitions: int
    proofs: Proofs


def seal(registered: Registered, number: int = 7, tag: str = "seal") -> Sealed:
    """The whole sector where it has few nodes, else what its challenges touch, which must not hang on comm_r then."""
    size, layers = registered.size, registered.size.layers
    fr = lambda name: hashlib.sha256(f"{tag} {name}".encode()).digest()[:31] + b"\0"
    prover = bytes([0xE8, 0x07]).ljust(32, b"\0")        # miner 1000
    binary = (2,) * size.log_nodes
    comm_d = Sparse({0: bytes(32)}, binary, sha_pairs).root.tobytes()
    replica = stacked.replica_id(prover, number, fr("ticket"), comm_d, registered.porep_id)
    facts = Facts(replica, bytes(32), comm_d, fr("seed"), fr("ticket"))
    partitions = stacked.partitions(registered.version, size)
    whole = size.nodes <= 1 << 10
    challenges = lambda facts: np.concatenate(
        [stacked.challenges(registered.version, size, facts, k) for k in range(partitions)])
    assert whole or registered.version not in (SYNTHETIC, NON_INTERACTIVE)
    nodes = np.arange(1, size.nodes) if whole else np.unique(challenges(facts))
    parents = dict(zip(nodes.tolist(), graph.parents(size, registered.porep_id, registered.version, nodes).tolist()))
    others = {} if whole else {parent: [fr(f"{parent} {layer}") for layer in range(layers)]
                               for row in parents.values() for parent in row if parent not in parents}
    rows = labels({0: [], **parents} if whole else parents, replica, layers, others)
    last = {node: column[-1] for node, column in rows.items()}
    columns = {**others, **rows}
    known = np.frombuffer(b"".join(b"".join(column) for column in columns.values()), "<u8").reshape(-1, layers, 4)
    hashes = poseidon_batch(known)
    tree_c = Sparse({node: hashes[i].tobytes() for i, node in enumerate(columns)}, size.arities, poseidon_batch)
    tree_r = Sparse(last, size.arities, poseidon_batch)
    comm_r = poseidon_batch(np.stack([tree_c.root, tree_r.root])[None])[0].tobytes()
    facts = facts._replace(comm_r=comm_r)

    asked = challenges(facts)
    index = np.concatenate([asked[:, None], [parents[node] for node in asked.tolist()]], axis=1)
    words = lambda texts, *shape: np.frombuffer(b"".join(texts), "<u8").reshape(-1, *shape, 4)
    column_rows = words([b"".join(columns[node]) for node in index.reshape(-1).tolist()], 15, layers)
    hashed = []
    for node in asked.tolist():
        of_layers = [[columns[p][layer] for p in parents[node][:6]]
                     + ([columns[p][layer - 1] for p in parents[node][6:]] if layer else []) for layer in range(layers)]
        for given in (*of_layers, of_layers[-1]):
            hashed += (given * 37)[:37]
    number_of = np.broadcast_to(asked[:, None], (len(asked), layers + 1)).copy()
    layer_of = np.broadcast_to(np.array([*range(1, layers + 1), layers]), number_of.shape).copy()
    proofs = Proofs(Sparse({0: bytes(32)}, binary, sha_pairs).paths(asked), tree_r.paths(asked),
                    tree_c.paths(index.reshape(-1)), index, column_rows, words(hashed, layers + 1, 37), layer_of,
                    number_of)
    return Sealed(registered, prover, number, facts, partitions, proofs)


# ---- as files
def as_object(sealed: Sealed, name: str | None = None) -> dict:
    """The JSON value of the API, bytes as lists of numbers."""
    size, p = sealed.registered.size, sealed.proofs
    node = lambda words: list(words.tobytes())

    def merkle(paths: Paths, i: int, levels) -> dict:
        used = level = 0
        parts = []
        for arities in levels:
            elements = []
            for arity in arities:
                hashes = [node(words) for words in paths.siblings[i, used:used + arity - 1]]
                elements.append({"hashes": hashes, "index": int(paths.position[i, level])})
                used, level = used + arity - 1, level + 1
            parts.append({"path": elements})
        ends = {"root": node(paths.root[i]), "leaf": node(paths.leaf[i])}
        names = (("path",), ("base_proof", "sub_proof"), ("base_proof", "sub_proof", "top_proof"))[len(levels) - 1]
        body = dict(zip(names, parts))
        whole = {**ends, **body} if len(levels) == 1 else {**body, **ends}
        return {"data": {("Single", "Sub", "Top")[len(levels) - 1]: whole}}

    def column(i: int, j: int) -> dict:
        rows = [node(words) for words in p.column_rows[i, j]]
        return {"column": {"index": int(p.column_index[i, j]), "rows": rows, "_h": None},
                "inclusion_proof": merkle(p.columns, 15 * i + j, levels_of(size))}

    def label(i: int, j: int) -> dict:
        return {"parents": [node(w) for w in p.label_parents[i, j]], "layer_index": int(p.label_layer[i, j]),
                "node": int(p.label_node[i, j])}

    def challenge(i: int) -> dict:
        return {"comm_d_proofs": merkle(p.data, i, [(2,) * size.log_nodes]),
                "comm_r_last_proof": merkle(p.replica, i, levels_of(size)),
                "replica_column_proofs": {"c_x": column(i, 0), "drg_parents": [column(i, j) for j in range(1, 7)],
                                          "exp_parents": [column(i, j) for j in range(7, 15)]},
                "labeling_proofs": [label(i, j) for j in range(size.layers)], "encoding_proof": label(i, size.layers)}

    each = size.porep_challenges
    found = [[challenge(k * each + i) for i in range(each)] for k in range(sealed.partitions)]
    f = sealed.facts
    return {"registered_proof": name or f"StackedDrg{size.name}{sealed.registered.version}",
            "vanilla_proofs": {f"StackedDrg{size.name}V1": found},
            **{name: list(getattr(f, name)) for name in ("comm_r", "comm_d", "replica_id", "seed", "ticket")}}


def as_json(value: dict) -> bytes:
    """As serde writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def as_wrapper(data: bytes, number: int, size_bytes: int) -> bytes:
    """As lotus and curio pass it."""
    return as_json({"SectorNum": number, "Phase1Out": base64.b64encode(data).decode(), "SectorSize": size_bytes})


def as_binary(value: dict) -> bytes:
    """As supraseal writes it: bincode of the vanilla proofs, then the facts."""
    u64 = lambda n: n.to_bytes(8, "little")
    u32 = lambda n: n.to_bytes(4, "little")

    def path(part) -> bytes:
        return u64(len(part["path"])) + b"".join(
            u64(len(e["hashes"])) + b"".join(map(bytes, e["hashes"])) + u64(e["index"]) for e in part["path"])

    def merkle(proof) -> bytes:
        ((name, body),) = proof["data"].items()
        tag = ("Single", "Sub", "Top").index(name)
        ends = bytes(body["root"]) + bytes(body["leaf"])
        if tag == 0:
            return u32(0) + ends + path(body["path"])
        return u32(tag) + b"".join(path(body[n]) for n in ("base_proof", "sub_proof", "top_proof")[:tag + 1]) + ends

    def column(proof) -> bytes:
        c = proof["column"]
        rows = u64(len(c["rows"])) + b"".join(map(bytes, c["rows"]))
        return u32(c["index"]) + rows + merkle(proof["inclusion_proof"])

    def label(proof) -> bytes:
        return (u64(len(proof["parents"])) + b"".join(map(bytes, proof["parents"])) + u32(proof["layer_index"])
                + u64(proof["node"]))

    def challenge(proof) -> bytes:
        columns = proof["replica_column_proofs"]
        lists = [u64(len(columns[n])) + b"".join(map(column, columns[n])) for n in ("drg_parents", "exp_parents")]
        labels = proof["labeling_proofs"]
        return (merkle(proof["comm_d_proofs"]) + merkle(proof["comm_r_last_proof"]) + column(columns["c_x"])
                + b"".join(lists) + u64(len(labels)) + b"".join(map(label, labels)) + label(proof["encoding_proof"]))

    ((_, parts),) = value["vanilla_proofs"].items()
    body = u64(len(parts)) + b"".join(u64(len(part)) + b"".join(map(challenge, part)) for part in parts)
    return body + b"".join(bytes(value[name]) for name in ("comm_r", "comm_d", "replica_id", "seed", "ticket"))


