"""Poseidon: neptune's vectors, the plain permutation, and the compiled one."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.protocol import poseidon
from cuzk_cli.protocol.fr import R_ORDER, to_ints, to_words

# inputs 0, 1, ..., arity - 1 under the Merkle tag; little-endian digests (neptune src/poseidon.rs)
VECTORS = {
    2: "ffe7029a363c202e9da6059d33a9fba661e1ef02d90f9e736ba5765ed7086539",
    4: "5d076266ff149801ec2713bf05466bfb99932279653cdb008a84e5a9104ba558",
    8: "e6a5386df534992ad9aec49c9d2e684b777067114200011255dea5a31d619423",
    11: "6331692bc3bbe3cec18fb0ccd8dcf3097ae8eb32e237a56c287f22e5b2c10f0c",
}
ARITIES = sorted(VECTORS)
TAGS = (None, poseidon.TAG_RANDOMNESS, 0, R_ORDER - 1)
each_arity = pytest.mark.parametrize("arity", ARITIES)


@each_arity
def test_vectors(arity):
    digest = bytes.fromhex(VECTORS[arity])
    assert poseidon.poseidon_int(range(arity)) == int.from_bytes(digest, "little")
    assert poseidon.poseidon_batch(to_words(range(arity))[None]).tobytes() == digest


@each_arity
@pytest.mark.parametrize("tag", TAGS)
def test_compiled_is_the_plain_permutation_at_the_extremes(arity, tag):
    rows = [[v] * arity for v in (0, 1, R_ORDER - 1)] + [[(i * 7**90 + 5) % R_ORDER for i in range(arity)]]
    found = poseidon.poseidon_batch(np.stack([to_words(row) for row in rows]), tag)
    assert found.shape == (len(rows), 4) and found.dtype == np.uint64
    assert to_ints(found) == [poseidon.poseidon_int(row, tag) for row in rows]


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_compiled_is_the_plain_permutation(data):
    arity, tag = data.draw(st.sampled_from(ARITIES)), data.draw(st.sampled_from(TAGS))
    rows = data.draw(st.lists(st.lists(st.integers(0, R_ORDER - 1), min_size=arity, max_size=arity), max_size=3))
    words = np.array([to_words(row) for row in rows], np.uint64).reshape(-1, arity, 4)
    assert to_ints(poseidon.poseidon_batch(words, tag)) == [poseidon.poseidon_int(row, tag) for row in rows]


def test_inputs_of_any_layout_and_the_batch_left_alone():
    words = to_words(range(64)).reshape(4, 2, 8, 4)[:, 1]
    before = words.copy()
    found = poseidon.poseidon_batch(words)
    assert (found == poseidon.poseidon_batch(np.ascontiguousarray(words))).all() and (words == before).all()


@each_arity
def test_shapes_and_closed_form_of_the_sparse_matrices(arity):
    c, t = poseidon.constants(arity), arity + 1
    assert len(c.keys) == 8 * t + c.partial_rounds and len(c.sparse) == c.partial_rounds
    assert c.width == t and all(len(row) == t for row in c.mds) and c.mds == [list(row) for row in zip(*c.mds)]
    # v_rest_k = v H^(k-1), k = 1 for the last partial round (neptune src/mds.rs)
    minor = [row[1:] for row in c.mds[1:]]
    rest = list(c.mds[0][1:])
    for w_hat, v_rest in reversed(c.sparse):
        assert w_hat[0] == c.mds[0][0] and list(v_rest) == rest
        rest = [sum(v * row[j] for v, row in zip(rest, minor)) % R_ORDER for j in range(arity)]
    assert c.pre_sparse[0] == [c.mds[0][0], *rest]


@each_arity
def test_words_of_the_constants(arity):
    c, plain = poseidon.constants(arity), poseidon.constant_words(arity, 1)
    scaled = poseidon.constant_words(arity)
    assert to_ints(plain.keys) == c.keys and to_ints(scaled.keys) == [(k << 256) % R_ORDER for k in c.keys]
    assert to_ints(plain.mds) == [v for row in c.mds for v in row]
    assert to_ints(plain.pre_sparse) == [v for row in c.pre_sparse for v in row]
    assert to_ints(plain.w_hat) == [v for w, _ in c.sparse for v in w]
    assert to_ints(plain.v_rest) == [v for _, r in c.sparse for v in r]
