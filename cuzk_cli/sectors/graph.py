"""Parents of a node in the graph that PoRep's labels hang on: DRSample's, and an expander made by a Feistel network.

Source: rust-fil-proofs storage-proofs-core src/{drgraph,crypto/mod,crypto/feistel}.rs, storage-proofs-porep
src/stacked/vanilla/graph.rs.
"""
from __future__ import annotations

import hashlib
import math

import numpy as np

from ..protocol import chacha
from ..protocol.table import DRG_PARENTS, EXPANDER_PARENTS, Size

PARENTS = DRG_PARENTS + EXPANDER_PARENTS
_FEISTEL_ROUNDS = 3


def parents(size: Size, porep_id: bytes, version: str, nodes) -> np.ndarray:
    """int64[n, 14]: the 6 DRG parents of each node above 0, then its 8 expander parents.

    version: of the registered proof. V1 (API 1.0) puts the predecessor last among the six, and cuts permuted indices to
    32 bits.
    """
    nodes = np.asarray(nodes, np.int64)
    first_api = version == "V1"
    out = np.empty((len(nodes), PARENTS), np.int64)
    sampled = _drg(porep_id, nodes)
    if first_api:
        out[:, :DRG_PARENTS - 1], out[:, DRG_PARENTS - 1] = sampled, nodes - 1
    else:
        out[:, 0], out[:, 1:DRG_PARENTS] = nodes - 1, sampled
    permuted = _expander(porep_id, size, nodes)
    out[:, DRG_PARENTS:] = (permuted & 0xFFFF_FFFF if first_api else permuted) // EXPANDER_PARENTS
    return out


def _drg(porep_id: bytes, nodes: np.ndarray) -> np.ndarray:
    """int64[n, 5]: a bucket of distances, then a distance in it, both from ChaCha8 keyed by the node."""
    samples = DRG_PARENTS - 1
    keys = np.empty((len(nodes), 8), np.uint32)
    keys[:, :7] = np.frombuffer(hashlib.sha256(b"Filecoin_DRSample" + porep_id).digest()[:28], "<u4")
    keys[:, 7] = nodes
    stream = np.concatenate([chacha.blocks(keys, np.array([[i, 0, 0, 0]], np.uint32), 8) for i in range(2)], axis=1)
    random = np.ascontiguousarray(stream).view("<u8")
    out = np.empty((len(nodes), samples), np.int64)
    for i, node in enumerate(nodes.tolist()):
        if node == 1:               # has node 0 as its only parent
            out[i] = 0
            continue
        meta = node * samples
        buckets = math.ceil(math.log2(meta))
        for j in range(samples):
            largest = min(meta, 1 << int(random[i, 2 * j]) % buckets + 1)
            smallest = max(2, largest >> 1)
            parent = (meta - smallest - int(random[i, 2 * j + 1]) % (largest - smallest + 1)) // samples
            out[i, j] = node - 1 if parent == node else parent
    return out


def _expander(porep_id: bytes, size: Size, nodes: np.ndarray) -> np.ndarray:
    """int64[n, 8]: node's eight edges, permuted among those of all nodes."""
    keys = [key.tobytes()[::-1] for key in
            np.frombuffer(hashlib.sha256(b"Filecoin_Feistel" + porep_id).digest(), "<u8")[:_FEISTEL_ROUNDS]]
    edges = size.nodes * EXPANDER_PARENTS
    half = max((edges - 1).bit_length() + 1 >> 1, 1)
    mask = (1 << half) - 1

    def permute(index: int) -> int:
        while True:
            left, right = index >> half, index & mask
            for key in keys:
                digest = hashlib.blake2b(right.to_bytes(8, "big") + key).digest()
                left, right = right, left ^ int.from_bytes(digest[:8], "big") & mask
            index = left << half | right
            if index < edges:       # the network permutes a power of four: walk on until it is an edge
                return index

    return np.array([[permute(node * EXPANDER_PARENTS + i) for i in range(EXPANDER_PARENTS)]
                     for node in nodes.tolist()], np.int64)
