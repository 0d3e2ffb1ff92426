"""Parents of nodes: by the labels that the reference's tests have for them, and by its phase 1 outputs."""
import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cuzk_cli.protocol.table import NON_INTERACTIVE, SIZES, V1, V1_1
from cuzk_cli.sectors import c1, graph

from . import sealing

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sectors" / "2KiB"
LEGACY, NEW = bytes(32), bytes([123]) * 32


@pytest.mark.parametrize("size, porep_id, version, words", [    # storage-proofs-porep tests/stacked_vanilla.rs
    (2048, LEGACY, V1, (0xD3FAA96B9A0FBA04, 0xEA81A283D106485E, 0xE3D51B9AFA5AC2B3, 0x0462F4F4F1A68D37)),
    (4096, LEGACY, V1, (0x7E191E52C4A8DA86, 0x5AE8A1C9E6FAC148, 0xCE239F3B88A894B8, 0x234C00D1DC1D53BE)),
    (2048, NEW, V1_1, (0xABB3F38BB70DEFCF, 0x777A2E4D7769119F, 0x3448959D495490BC, 0x06021188C7A71CB5)),
    (4096, NEW, V1_1, (0x22AB81CF68C4676D, 0x7A77A82FC7C9C189, 0xC6C03D32C1E42D23, 0x0F777C18CC2C55BD)),
    (2048, NEW, NON_INTERACTIVE, (0xABB3F38BB70DEFCF, 0x777A2E4D7769119F, 0x3448959D495490BC, 0x06021188C7A71CB5))])
def test_labels_of_the_references_tests(size, porep_id, version, words):
    nodes = np.arange(1, SIZES[size].nodes)
    parents = dict(zip(nodes.tolist(), graph.parents(SIZES[size], porep_id, version, nodes).tolist()))
    found = sealing.labels({0: [], **parents}, bytes([9]) * 32, 11, {})
    assert np.frombuffer(found[SIZES[size].nodes - 1][-1], "<u8").tolist() == list(words)


@pytest.mark.parametrize("number", [1, 2])
def test_parents_in_the_references_output(number):
    found = c1.parse((FIXTURES / f"s-t01000-{number}.c1.json").read_bytes())
    nodes = found.proofs.column_index[:, 0]
    expected = graph.parents(found.size, found.registered.porep_id, V1_1, nodes)
    assert (found.proofs.column_index[:, 1:] == expected).all()


@lru_cache(maxsize=None)
def _definition(size, porep_id: bytes, node: int) -> tuple:
    """The expander's edges one by one (storage-proofs-core src/crypto/feistel.rs)."""
    keys = [int.from_bytes(hashlib.sha256(b"Filecoin_Feistel" + porep_id).digest()[8 * i:8 * i + 8], "little")
            for i in range(3)]
    edges, log4 = 8 * size.nodes, 1
    while 4 ** log4 < edges:
        log4 += 1

    def encode(index):
        left, right = index >> log4, index % 2 ** log4
        for key in keys:
            digest = hashlib.blake2b(right.to_bytes(8, "big") + key.to_bytes(8, "big")).digest()
            left, right = right, left ^ int.from_bytes(digest[:8], "big") % 2 ** log4
        return left << log4 | right

    found = []
    for i in range(8):
        index = encode(8 * node + i)
        while index >= edges:
            index = encode(index)
        found.append(index)
    return tuple(found)


@given(st.sampled_from(sorted(SIZES)), st.integers(1, 2**31 - 1), st.binary(min_size=32, max_size=32))
def test_expander_against_the_definition(bytes_, node, porep_id):
    size = SIZES[bytes_]
    node = 1 + node % (size.nodes - 1)
    edges = _definition(size, porep_id, node)
    new, old = (graph.parents(size, porep_id, version, [node])[0].tolist() for version in (V1_1, V1))
    assert new[6:] == [edge // 8 for edge in edges]
    assert old[6:] == [edge % 2**32 // 8 for edge in edges]         # cut where a sector has more than 2^29 nodes
    assert new[0] == old[5] == node - 1 and new[1:6] == old[:5] and max(new[:6]) < node and min(new) >= 0


def test_the_first_nodes():
    found = graph.parents(SIZES[2048], NEW, V1_1, [1, 2])
    assert (found[0, :6] == 0).all() and set(found[1, :6].tolist()) <= {0, 1} and found[1, 0] == 1
