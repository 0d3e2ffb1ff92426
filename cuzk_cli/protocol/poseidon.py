"""Poseidon as neptune v11 instantiates it for Filecoin (strength "standard"): constants and two implementations.

State of width t = arity + 1: the domain tag, then the inputs; x^5; 8 full rounds around R_P partial ones; the digest is
element 1. Sources: neptune src/{round_numbers,round_constants,mds,preprocessing,hash_type}.rs.
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .compiled import njit
from .fr import R_ORDER, add_mod, from_mont, load, mont_mul, store, to_mont, to_words

FULL_ROUNDS = 8
PARTIAL_ROUNDS = {2: 55, 4: 56, 8: 57, 11: 57}      # neptune src/round_numbers.rs
TAG_RANDOMNESS = 1 << 40                            # Custom(Arbitrary(1)): storage-proofs-update/src/constants.rs


def tag_merkle(arity: int) -> int:
    """Domain tag of Merkle trees and columns: 2^arity - 1 (neptune src/hash_type.rs)."""
    return (1 << arity) - 1


def _grain(width: int, partial_rounds: int):
    """Field elements of the Grain LFSR (neptune src/round_constants.rs)."""
    state = []
    fields = ((1, 2), (1, 4), (255, 12), (width, 12), (FULL_ROUNDS, 10), (partial_rounds, 10), (2**30 - 1, 30))
    for value, bits in fields:
        state += [(value >> (bits - 1 - i)) & 1 for i in range(bits)]

    def step() -> int:
        bit = state[62] ^ state[51] ^ state[38] ^ state[23] ^ state[13] ^ state[0]
        state.pop(0)
        state.append(bit)
        return bit

    for _ in range(160):
        step()
    while True:
        value = 0
        for _ in range(255):
            while not step():
                step()
            value = value << 1 | step()
        if value < R_ORDER:
            yield value


def _times(vector, matrix):
    """Row vector times matrix."""
    return [sum(v * row[j] for v, row in zip(vector, matrix)) % R_ORDER for j in range(len(matrix[0]))]


def _inverse(matrix):
    """Inverse mod r by Gauss-Jordan elimination."""
    n = len(matrix)
    rows = [list(row) + [int(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = pow(rows[i][i], -1, R_ORDER)
        rows[i] = [v * scale % R_ORDER for v in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [(a - factor * b) % R_ORDER for a, b in zip(rows[k], rows[i])]
    return [row[n:] for row in rows]


class Constants(NamedTuple):
    """Constants of one arity, as Python integers.

    keys: 8t + R_P compressed round keys (formats: t pre-keys, then post-keys of every S-box but the last full round's);
    mds, pre_sparse: t x t, applied as row vector times matrix; sparse: R_P pairs (w_hat[t], v_rest[t - 1]) in
    round order; round_keys: the plain t(8 + R_P) keys.
    """

    arity: int
    partial_rounds: int
    keys: list
    mds: list
    pre_sparse: list
    sparse: list
    round_keys: list

    @property
    def width(self) -> int:
        return self.arity + 1


@lru_cache(maxsize=None)
def constants(arity: int) -> Constants:
    """The constants of arity 2, 4, 8 or 11."""
    t, partial = arity + 1, PARTIAL_ROUNDS[arity]
    mds = [[pow(i + t + j, -1, R_ORDER) for j in range(t)] for i in range(t)]
    source = _grain(t, partial)
    flat = [next(source) for _ in range(t * (FULL_ROUNDS + partial))]
    round_keys = [flat[t * r:t * r + t] for r in range(FULL_ROUNDS + partial)]
    inverse = _inverse(mds)
    # preprocessing.rs: keys are moved through the linear layer so that each S-box carries one
    keys = list(round_keys[0])
    for r in (1, 2, 3):
        keys += _times(round_keys[r], inverse)
    acc, stack = round_keys[4 + partial], []
    for r in range(3 + partial, 3, -1):
        x = _times(acc, inverse)
        stack.append(x[0])
        x[0] = 0
        acc = [(k + v) % R_ORDER for k, v in zip(round_keys[r], x)]
    keys += _times(acc, inverse) + stack[::-1]
    for r in (5, 6, 7):
        keys += _times(round_keys[partial + r], inverse)
    # mds.rs: M = M' M'' factored once per partial round, last round first
    sparse, matrix = [], mds
    for _ in range(partial):
        minor = [row[1:] for row in matrix[1:]]
        column = [row[0] for row in matrix[1:]]
        inv = _inverse(minor)
        w_hat = [sum(a * b for a, b in zip(row, column)) % R_ORDER for row in inv]
        sparse.append(([matrix[0][0]] + w_hat, list(matrix[0][1:])))
        prime = [[1] + [0] * arity] + [[0] + row for row in minor]
        matrix = [_times(row, prime) for row in mds]
    # the matrix left over holds the accumulated minor of all partial rounds
    return Constants(arity, partial, keys, mds, matrix, sparse[::-1], round_keys)


def poseidon_int(inputs, tag: int | None = None) -> int:
    """The plain permutation on Python integers, as the paper writes it: the oracle of every other version."""
    c = constants(len(inputs))
    state = [tag_merkle(c.arity) if tag is None else tag, *inputs]
    for r, keys in enumerate(c.round_keys):
        state = [(s + k) % R_ORDER for s, k in zip(state, keys)]
        full = r < FULL_ROUNDS // 2 or r >= FULL_ROUNDS // 2 + c.partial_rounds
        state = [pow(s, 5, R_ORDER) for s in state] if full else [pow(state[0], 5, R_ORDER)] + state[1:]
        state = _times(state, c.mds)
    return state[1]


class ConstantWords(NamedTuple):
    """Constants as uint64 words in Montgomery form (R = 2^256): the shapes of `Constants`."""

    keys: np.ndarray        # [8t + R_P, 4]
    mds: np.ndarray         # [t, t, 4]
    pre_sparse: np.ndarray  # [t, t, 4]
    w_hat: np.ndarray       # [R_P, t, 4]
    v_rest: np.ndarray      # [R_P, t - 1, 4]


@lru_cache(maxsize=None)
def constant_words(arity: int, radix: int = 1 << 256) -> ConstantWords:
    """`constants(arity)` times radix mod r, as words; radix 1 gives the plain values."""
    c, t = constants(arity), arity + 1
    words = lambda values, *shape: to_words([v * radix for v in values]).reshape(*shape, 4)
    flat = lambda rows: [v for row in rows for v in row]
    return ConstantWords(
        words(c.keys, len(c.keys)), words(flat(c.mds), t, t), words(flat(c.pre_sparse), t, t),
        words(flat(w for w, _ in c.sparse), c.partial_rounds, t),
        words(flat(v for _, v in c.sparse), c.partial_rounds, t - 1))


@njit
def _quintic(x):
    square = mont_mul(x, x)
    return mont_mul(mont_mul(square, square), x)


@njit
def _dense(state, scratch, matrix):
    t = len(state)
    for j in range(t):
        total = mont_mul(load(state, 0), load(matrix[0], j))
        for i in range(1, t):
            total = add_mod(total, mont_mul(load(state, i), load(matrix[i], j)))
        store(scratch, j, total)
    state[:] = scratch


@njit
def _hash_rows(inputs, tag, keys, mds, pre_sparse, w_hat, v_rest, out):
    arity, partial = inputs.shape[1], len(w_hat)
    t = arity + 1
    state, scratch = np.empty((t, 4), np.uint64), np.empty((t, 4), np.uint64)
    for n in range(len(inputs)):
        store(state, 0, add_mod(tag, load(keys, 0)))
        for i in range(arity):
            store(state, i + 1, add_mod(to_mont(load(inputs[n], i)), load(keys, i + 1)))
        k = t
        for r in range(4):
            for i in range(t):
                store(state, i, add_mod(_quintic(load(state, i)), load(keys, k)))
                k += 1
            _dense(state, scratch, pre_sparse if r == 3 else mds)
        for r in range(partial):
            first = add_mod(_quintic(load(state, 0)), load(keys, k))
            k += 1
            total = mont_mul(first, load(w_hat[r], 0))
            for i in range(1, t):
                other = load(state, i)
                total = add_mod(total, mont_mul(other, load(w_hat[r], i)))
                store(state, i, add_mod(other, mont_mul(first, load(v_rest[r], i - 1))))
            store(state, 0, total)
        for r in range(4):
            for i in range(t):
                value = _quintic(load(state, i))
                if r < 3:
                    value = add_mod(value, load(keys, k))
                    k += 1
                store(state, i, value)
            _dense(state, scratch, mds)
        store(out, n, from_mont(load(state, 1)))


def poseidon_batch(inputs: np.ndarray, tag: int | None = None) -> np.ndarray:
    """Hash each row: words uint64[n, arity, 4] -> uint64[n, 4]. One core, compiled; about 0.05 ms a hash of arity 8."""
    inputs = np.ascontiguousarray(inputs, np.uint64)
    arity = inputs.shape[1]
    value = to_words([(tag_merkle(arity) if tag is None else tag) << 256])[0]
    out = np.empty((len(inputs), 4), np.uint64)
    _hash_rows(inputs, tuple(value), *constant_words(arity), out)
    return out
