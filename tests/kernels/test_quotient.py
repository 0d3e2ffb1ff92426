"""The quotient against schoolbook polynomials at small sizes, its defining identity at a random point at large ones."""
import random
from typing import NamedTuple

import jax
import numpy as np
import pytest

from cuzk_cli.kernels import ntt
from cuzk_cli.kernels.field import R_ORDER as P, scalar_field
from cuzk_cli.kernels import pieces
from cuzk_cli.kernels.quotient import QuotientPlan, plan, quotient

HYBRID, INT32 = scalar_field("cpu"), scalar_field("cuda")


class Rows(NamedTuple):
    small: np.ndarray
    wide_index: np.ndarray
    wide: np.ndarray


def to_words(values) -> np.ndarray:
    return np.frombuffer(b"".join(v.to_bytes(32, "little") for v in values), np.uint64).reshape(-1, 4)


def to_ints(words) -> list[int]:
    data = np.ascontiguousarray(words).tobytes()
    return [int.from_bytes(data[i:i + 32], "little") for i in range(0, len(data), 32)]


def rows(values) -> Rows:
    """Values in [-128, 127] mod r small, the others wide."""
    signed = [v - P if P - v <= 128 else v for v in values]
    wide = [k for k, v in enumerate(signed) if v > 127]
    small = np.array([0 if v > 127 else v for v in signed], np.int8)
    return Rows(small, np.array(wide, np.uint32), to_words([values[k] for k in wide]))


def interpolate(values: list[int]) -> list[int]:
    """Coefficients from the values on the roots of unity, straight from the definition."""
    m = len(values)
    w, scale = pow(ntt.root_of_unity(m.bit_length() - 1), -1, P), pow(m, -1, P)
    powers = [pow(w, k, P) for k in range(m)]
    return [scale * sum(v * powers[i * k % m] for k, v in enumerate(values)) % P for i in range(m)]


def schoolbook(a, b, c, log_m: int) -> list[int]:
    """Quotient of A*B - C by X^m - 1, which divides it; m coefficients."""
    m = 1 << log_m
    a, b, c = (interpolate(v + [0] * (m - len(v))) for v in (a, b, c))
    dividend = [0] * (2 * m)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            dividend[i + j] += x * y
    for i, x in enumerate(c):
        dividend[i] -= x
    assert all((low + high) % P == 0 for low, high in zip(dividend, dividend[m:]))
    return [v % P for v in dividend[m:]]


KINDS = {
    "random": lambda rng: rng.randrange(P),
    "largest": lambda rng: P - 1,
    "mixed": lambda rng: rng.choice([0, 1, 2, P - 1, P - 128, P - 129, 127, 128, P // 2, rng.randrange(P)]),
    "bits": lambda rng: rng.choice([0, 1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log_m", [1, 2, 3, 5, 8])
def test_against_schoolbook(log_m, kind):
    rng = random.Random(log_m)
    n = (1 << log_m) - (kind == "mixed")
    a, b = ([KINDS[kind](rng) for _ in range(n)] for _ in range(2))
    c = [x * y % P for x, y in zip(a, b)]
    words = quotient(rows(a), rows(b), rows(c), log_m)
    assert words.shape == ((1 << log_m) - 1, 4) and words.dtype == np.uint64
    assert to_ints(words) == schoolbook(a, b, c, log_m)[:-1]


@pytest.mark.parametrize("log_m", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_the_int32_form(log_m):
    rng = random.Random(log_m)
    a, b = ([KINDS["mixed"](rng) for _ in range(1 << log_m)] for _ in range(2))
    c = [x * y % P for x, y in zip(a, b)]
    assert to_ints(quotient(rows(a), rows(b), rows(c), log_m, INT32)) == schoolbook(a, b, c, log_m)[:-1]


def test_the_int32_form_in_whole_tiles(monkeypatch):
    """As on a GPU, where a tile is everything that a device has."""
    original = ntt.shape_of
    monkeypatch.setattr(ntt, "shape_of", lambda log_n, devices, _: original(log_n, devices, "cuda"))
    whole = QuotientPlan(ntt.Plan(5, INT32, tuple(jax.local_devices())))
    rng = random.Random(7)
    a, b = ([KINDS["mixed"](rng) for _ in range(32)] for _ in range(2))
    c = [x * y % P for x, y in zip(a, b)]
    got = np.asarray(whole.run(rows(a), rows(b), rows(c))).reshape(-1, 4)
    assert to_ints(got) == schoolbook(a, b, c, 5)


def test_one_device():
    rng = random.Random(9)
    a, b = ([KINDS["mixed"](rng) for _ in range(32)] for _ in range(2))
    c = [x * y % P for x, y in zip(a, b)]
    got = quotient(rows(a), rows(b), rows(c), 5, devices=tuple(jax.local_devices()[:1]))
    assert to_ints(got) == schoolbook(a, b, c, 5)[:-1]


def test_rows_that_do_not_satisfy():
    """The reference does not look: (A*B - C)/Z on the coset, interpolated; its last coefficient is dropped."""
    rng, m, log_m = random.Random(4), 16, 4
    a, b, c = ([rng.randrange(P) for _ in range(m)] for _ in range(3))
    w = ntt.root_of_unity(log_m)
    at = lambda poly, x: sum(v * pow(x, i, P) for i, v in enumerate(poly)) % P
    polynomials = [interpolate(v) for v in (a, b, c)]
    z = pow(pow(7, m, P) - 1, -1, P)
    values = []
    for k in range(m):
        x = 7 * pow(w, k, P) % P
        left, right, out = (at(poly, x) for poly in polynomials)
        values.append((left * right - out) * z % P)
    expected = [v * pow(7, -i, P) % P for i, v in enumerate(interpolate(values))]
    assert to_ints(quotient(rows(a), rows(b), rows(c), log_m)) == expected[:-1]


def at_point(values: list[int], log_m: int, x: int) -> int:
    """The polynomial of given values on the roots of unity, at x, by the barycentric formula; one inversion."""
    m, w = 1 << log_m, ntt.root_of_unity(log_m)
    numerator, denominator, root = 0, 1, 1
    prefix, terms = [], []
    for v in values:
        terms.append((v * root % P, (x - root) % P))
        prefix.append(denominator)
        denominator = denominator * terms[-1][1] % P
        root = root * w % P
    inverse = pow(denominator, -1, P)
    for (top, bottom), before in zip(reversed(terms), reversed(prefix)):
        numerator = (numerator + top * inverse % P * before) % P
        inverse = inverse * bottom % P
    return numerator * (pow(x, m, P) - 1) % P * pow(m, -1, P) % P


def check_identity(log_m: int, n: int) -> None:
    rng = np.random.default_rng(log_m)
    x = random.Random(log_m).randrange(P)
    values = []
    for wide in (0.5, 0.2):
        small = rng.integers(-3, 4, n).astype(np.int8)
        index = np.flatnonzero(rng.random(n) < wide).astype(np.uint32)
        small[index] = 0
        words = rng.integers(0, 2**64, (len(index), 4), dtype=np.uint64)
        words[:, 3] %= np.uint64(P >> 192)
        values.append(Rows(small, index, words))
    integers = []
    for v in values:
        full = [int(s) for s in v.small]
        for k, word in zip(v.wide_index, to_ints(v.wide)):
            full[k] = word
        integers.append(full)
    c = [a * b % P for a, b in zip(*integers)]
    h = to_ints(quotient(values[0], values[1], rows(c), log_m))
    total = 0
    for v in reversed(h):
        total = (total * x + v) % P
    left, right, out = (at_point(v, log_m, x) for v in (*integers, c))
    assert total * (pow(x, 1 << log_m, P) - 1) % P == (left * right - out) % P


def test_identity_at_a_random_point():
    check_identity(13, 7000)


@pytest.mark.slow
@pytest.mark.parametrize("log_m", [18, 21])
def test_identity_at_full_size(log_m):
    check_identity(log_m, (1 << log_m) - 12345)


def test_another_quotient_goes_between_two_pieces_and_plans_are_kept():
    a, b, inner = rows([3] * 8), list(range(8)), []

    def turn():
        if not inner:
            inner.append(None)
            inner.append(quotient(rows(b), rows(b), rows([x * x for x in b]), 3))

    with pieces.interrupted_by(turn):
        outer = quotient(a, a, rows([9] * 8), 3)
    assert not outer.any()          # 3 * 3 - 9 is the zero polynomial
    assert to_ints(inner[1]) == schoolbook(b, b, [x * x for x in b], 3)[:-1]
    assert plan(3) is plan(3, HYBRID)


def test_too_many_rows():
    a = rows([1] * 9)
    with pytest.raises(ValueError, match="9 rows do not fit a domain of 8"):
        quotient(a, a, a, 3)
