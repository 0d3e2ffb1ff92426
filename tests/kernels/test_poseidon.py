"""Batched Poseidon against plain integers and against the vectors of neptune."""
import random

import jax
import numpy as np
import pytest

from cuzk_cli.kernels.field import R_ORDER, scalar_field
from cuzk_cli.kernels.poseidon import Hasher
from cuzk_cli.protocol.fr import to_ints, to_words
from cuzk_cli.protocol.poseidon import TAG_RANDOMNESS, constant_words, poseidon_batch, poseidon_int, tag_merkle

INT32 = scalar_field("cuda")
VECTORS = {     # inputs 0 .. arity - 1: neptune src/poseidon.rs, hash_values test
    2: "ffe7029a363c202e9da6059d33a9fba661e1ef02d90f9e736ba5765ed7086539",
    4: "5d076266ff149801ec2713bf05466bfb99932279653cdb008a84e5a9104ba558",
    8: "e6a5386df534992ad9aec49c9d2e684b777067114200011255dea5a31d619423",
    11: "6331692bc3bbe3cec18fb0ccd8dcf3097ae8eb32e237a56c287f22e5b2c10f0c",
}


def hasher(arity: int, tag: int | None = None, **options) -> Hasher:
    return Hasher(constant_words(arity, 1), tag_merkle(arity) if tag is None else tag, **options)


def inputs(arity: int, count: int) -> list:
    rng = random.Random(arity)
    special = [0, 1, R_ORDER - 1, R_ORDER // 2, (1 << 208) - 1]
    rows = [[s] * arity for s in special] + [[rng.choice(special) for _ in range(arity)] for _ in range(count)]
    return rows + [[rng.randrange(R_ORDER) for _ in range(arity)] for _ in range(count)]


def words(rows) -> np.ndarray:
    return to_words([v for row in rows for v in row]).reshape(len(rows), -1, 4)


@pytest.mark.parametrize("arity", VECTORS)
def test_vectors_and_plain_integers(arity):
    hash_batch = hasher(arity)
    assert hash_batch(words([range(arity)])).tobytes().hex() == VECTORS[arity]
    rows = inputs(arity, 12)
    assert to_ints(hash_batch(words(rows))) == [poseidon_int(row) for row in rows]


@pytest.mark.parametrize("arity", [2, pytest.param(11, marks=pytest.mark.slow)])
def test_the_int32_form(arity):
    rows = inputs(arity, 12)
    assert to_ints(hasher(arity, field=INT32)(words(rows))) == [poseidon_int(row) for row in rows]


def test_another_tag_and_one_device():
    rows = inputs(2, 4)
    got = hasher(2, TAG_RANDOMNESS, devices=tuple(jax.local_devices()[:1]))(words(rows))
    assert to_ints(got) == [poseidon_int(row, TAG_RANDOMNESS) for row in rows]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 5000, 16384, 16641])
def test_batches_of_any_size(count):
    data = np.random.default_rng(count).integers(0, 2**62, (count, 2, 4)).astype(np.uint64)
    got = hasher(2)(data)
    assert got.shape == (count, 4) and got.dtype == np.uint64
    assert (got == poseidon_batch(data)).all()


def test_wrong_shape():
    with pytest.raises(ValueError, match=r"\(n, 2, 4\) expected"):
        hasher(2)(np.zeros((3, 4, 4), np.uint64))
