"""The secret behind test parameters, and what it lets one compute: the scalar of every point, and whole proofs.

Parameters of a seed secure nothing: whoever knows the seed forges proofs. They give fixed bytes for a fixed seed, and
let proofs of any size be checked by scalar arithmetic alone.
"""
from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from ..protocol.compiled import njit
from ..protocol.fr import (
    ONE, R_ORDER, ZERO, add_mod, from_mont, load, mont_mul, root_of_unity, store, sub_mod, to_ints, to_mont,
    to_mont_rows, to_words,
)
from .points import GENERATOR_G1, GENERATOR_G2, scalar


def hash_to_scalar(label: str) -> int:
    """SHA-256 of the label in UTF-8, the top two bits of byte 31 cleared, read as a little-endian integer."""
    digest = bytearray(hashlib.sha256(label.encode()).digest())
    digest[31] &= 0x3F
    return int.from_bytes(digest, "little")


class Trapdoor(NamedTuple):
    """The five secrets of Groth16 parameters (bellperson groth16/generator.rs), integers mod r."""

    alpha: int
    beta: int
    gamma: int
    delta: int
    tau: int

    @classmethod
    def of_seed(cls, seed: str) -> "Trapdoor":
        """The secrets of a seed: `hash_to_scalar("SEED alpha")` and so on."""
        return cls(*(hash_to_scalar(f"{seed} {name}") for name in cls._fields))

    def vanishing(self, log_m: int) -> int:
        """tau^m - 1. Raises ValueError if tau lies in the domain, where it would be zero."""
        value = (pow(self.tau, 1 << log_m, R_ORDER) - 1) % R_ORDER
        if value == 0:
            raise ValueError("tau is a root of unity of the domain")
        return value


def _mont(value: int) -> np.ndarray:
    """An integer in Montgomery form, uint64[1, 4]."""
    return to_mont_rows(to_words([value]))


# ---------------------------------------------------------------- scalars of the points
@njit
def _differences(tau, root, out):
    """out[i] = product of (tau - root^k) over k < i; returns the whole product and root^len(out), all Montgomery."""
    tau, root = load(tau, 0), load(root, 0)
    last = np.empty((2, 4), np.uint64)
    product, power = ONE, ONE
    for i in range(len(out)):
        store(out, i, product)
        product = mont_mul(product, sub_mod(tau, power))
        power = mont_mul(power, root)
    store(last, 0, product)
    store(last, 1, power)
    return last


@njit
def _divide(tau, root_inverse, inverse, power, scale, out):
    """The way back: out[i] becomes scale * root^i / (tau - root^i), canonical."""
    tau, root_inverse, scale = load(tau, 0), load(root_inverse, 0), load(scale, 0)
    inverse, power = load(inverse, 0), load(power, 0)
    for i in range(len(out) - 1, -1, -1):
        power = mont_mul(power, root_inverse)
        store(out, i, from_mont(mont_mul(mont_mul(inverse, load(out, i)), mont_mul(power, scale))))
        inverse = mont_mul(inverse, sub_mod(tau, power))


def lagrange_at(tau: int, log_m: int, rows: int) -> np.ndarray:
    """The first `rows` Lagrange polynomials of the domain of size m = 2^log_m, at a tau outside it.

    L_i(tau) = (tau^m - 1)/m * w^i / (tau - w^i), by one inversion for all. Returns uint64[rows, 4] words.
    """
    m = 1 << log_m
    assert 0 < rows <= m
    root = root_of_unity(log_m)
    out = np.empty((rows, 4), np.uint64)
    ends = _differences(_mont(tau), _mont(root), out)
    whole = to_ints(ends[:1])[0] * pow(1 << 256, -1, R_ORDER) % R_ORDER
    scale = (pow(tau, m, R_ORDER) - 1) * pow(m, -1, R_ORDER)
    _divide(_mont(tau), _mont(pow(root, -1, R_ORDER)), _mont(pow(whole, -1, R_ORDER)), ends[1:], _mont(scale), out)
    return out


@njit
def _geometric(first, ratio, out):
    value, ratio = load(first, 0), load(ratio, 0)
    for i in range(len(out)):
        store(out, i, from_mont(value))
        value = mont_mul(value, ratio)


def h_scalars(trapdoor: Trapdoor, log_m: int, start: int, count: int) -> np.ndarray:
    """tau^i (tau^m - 1)/delta for i in start .. start + count: uint64[count, 4] words."""
    out = np.empty((count, 4), np.uint64)
    first = pow(trapdoor.tau, start, R_ORDER) * trapdoor.vanishing(log_m) * pow(trapdoor.delta, -1, R_ORDER)
    _geometric(_mont(first), _mont(trapdoor.tau), out)
    return out


@njit
def _combine(u, v, w, beta, alpha, scale, out):
    beta, alpha, scale = load(beta, 0), load(alpha, 0), load(scale, 0)
    for i in range(len(out)):
        total = add_mod(mont_mul(load(u, i), beta), mont_mul(load(v, i), alpha))    # canonical times Montgomery
        store(out, i, mont_mul(add_mod(total, load(w, i)), scale))


def combined_scalars(trapdoor: Trapdoor, columns: np.ndarray, divisor: int) -> np.ndarray:
    """(beta u + alpha v + w)/divisor: the scalars of ic for divisor gamma, of l for delta.

    columns: uint64[3, n, 4] words, u, v, w at tau. Returns uint64[n, 4] words.
    """
    u, v, w = columns
    out = np.empty(u.shape, np.uint64)
    inverse = pow(divisor, -1, R_ORDER)
    _combine(u, v, w, _mont(trapdoor.beta), _mont(trapdoor.alpha), _mont(inverse), out)
    return out


# ---------------------------------------------------------------- proofs without a prover
@njit
def _dot(words, column):
    total = ZERO
    for i in range(len(words)):
        total = add_mod(total, mont_mul(to_mont(load(words, i)), load(column, i)))
    out = np.empty((1, 4), np.uint64)
    store(out, 0, total)
    return out


@njit
def _dot_compact(small, index, full, column):
    total, k = ZERO, 0
    for i in range(len(small)):
        if small[i] == 1:
            total = add_mod(total, load(column, i))
        elif small[i] == 2:
            while index[k] < i:
                k += 1
            total = add_mod(total, mont_mul(to_mont(load(full, k)), load(column, i)))
    out = np.empty((1, 4), np.uint64)
    store(out, 0, total)
    return out


def proof_logarithms(trapdoor: Trapdoor, log_m: int, columns: np.ndarray, assignment, r: int, s: int) -> tuple:
    """Discrete logarithms of A, B, C for a satisfying assignment: integers mod r_order.

    With U = Σ z_j u_j and so on: A = alpha + U + r delta, B = beta + V + s delta, and in C the quotient's part is
    h(tau) (tau^m - 1)/delta = (U V - W)/delta. Whether the assignment satisfies the circuit does not show: with the
    trapdoor anything can be proved.

    columns: uint64[3, n_inputs + n_aux, 4] words, u, v, w at tau. assignment: fields inputs, aux_small, aux_full_index,
    aux_full as in circuits.witness.Assignment.
    """
    trapdoor.vanishing(log_m)
    n = len(assignment.inputs)
    inputs, aux = zip(*((
        to_ints(_dot(assignment.inputs, column[:n]))[0],
        to_ints(_dot_compact(assignment.aux_small, assignment.aux_full_index, assignment.aux_full, column[n:]))[0],
    ) for column in columns))
    u, v, w = (a + b for a, b in zip(inputs, aux))
    alpha, beta, _, delta, _ = trapdoor
    private = beta * aux[0] + alpha * aux[1] + aux[2]
    a, b = alpha + u + r * delta, beta + v + s * delta
    c = (private + u * v - w) * pow(delta, -1, R_ORDER) + a * s + b * r - r * s * delta
    return a % R_ORDER, b % R_ORDER, c % R_ORDER


def expected_proof(trapdoor: Trapdoor, log_m: int, columns: np.ndarray, assignment, r: int, s: int) -> bytes:
    """The 192 bytes that a correct prover makes under the trapdoor's parameters; arguments as `proof_logarithms`."""
    a, b, c = proof_logarithms(trapdoor, log_m, columns, assignment, r, s)
    points = GENERATOR_G1 * scalar(a), GENERATOR_G2 * scalar(b), GENERATOR_G1 * scalar(c)
    return b"".join(bytes(point.to_compressed_bytes()) for point in points)
