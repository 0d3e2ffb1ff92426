"""Both products of both fields against Python integers, at the extremes that `admits` allows."""
import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.kernels import runtime
from cuzk_cli.kernels.field import Q_PRIME, R_ORDER, HybridField, base_field, materialise, scalar_field

FIELDS = {
    "fr-hybrid": scalar_field("cpu"), "fr-int32": scalar_field("cuda"),
    "fq-hybrid": base_field("cpu"), "fq-int32": base_field("cuda"),
}
# (log2 of the limb bounds of each pair), all to be admitted
PAIRS = {
    "fr-hybrid": [[(55, 51)], [(53, 53)], [(54, 51), (54, 51)], [(53, 51)] * 4],
    "fr-int32": [[(30, 29)], [(29, 29)], [(29, 28)] * 3, [(28, 28)] * 4],
    "fq-hybrid": [[(52, 52)], [(51, 51), (51, 51)]],
    "fq-int32": [[(29, 29)], [(28, 28)], [(28, 28), (28, 28)]],
}
LANES = 512
each_field = pytest.mark.parametrize("name", FIELDS)


def whole(field, limbs) -> list[int]:
    """The integers that limbs stand for, not reduced."""
    return [sum(int(limbs[i][k]) << (field.width * i) for i in range(field.count)) for k in range(len(limbs[0]))]


def extremes(field, bits: int, rng) -> np.ndarray:
    """Limbs [count, LANES], int64, |limb| <= 2^bits: all at the bounds, then mixed, then random."""
    top = min(2**bits, 2**31 - 1) if field.dtype is np.int32 else 2**bits
    half = 1 << (field.width - 1)
    special = np.array([0, 1, -1, top, -top, top - 1, min(half, top), -min(half, top), min(half, top) - 1])
    out = rng.integers(-top, top, (field.count, LANES), endpoint=True)
    out[:, :LANES // 2] = special[rng.integers(0, len(special), (field.count, LANES // 2))]
    out[:, :4] = np.array([top, -top, top, -top])
    return out


@functools.cache
def compiled(name: str, operation: str):
    field = FIELDS[name]
    functions = {
        "product": lambda *pairs: materialise(field.product(*pairs)),
        "square": lambda a: field.square(a),
        "carry": lambda a: materialise(field.carry(a)),
        "reduce": lambda a: materialise(field.reduce(a)),
        "canonical": lambda a: materialise(field.canonical(a)),
        "is_zero": lambda a: field.is_zero(a),
        "words": lambda words: field.from_words(words),
        "to_words": lambda a: field.to_words(a, -(-field.p.bit_length() // 64)),
    }
    return jax.jit(functions[operation], compiler_options=runtime.compiler_options())


def limbs(field, array) -> list:
    return [np.asarray(row, field.dtype) for row in array]


@pytest.mark.parametrize("name,bits", [(name, bits) for name in PAIRS for bits in PAIRS[name]])
def test_product_at_the_bounds(name, bits):
    field = FIELDS[name]
    assert field.admits(*[(2**a, 2**b) for a, b in bits])
    rng = np.random.default_rng(len(bits))
    pairs = [(extremes(field, a, rng), extremes(field, b, rng)) for a, b in bits]
    for first, second in pairs:
        second[:, 1] = -np.sign(first[:, 1]) * np.abs(second[:, 1])     # every column sum at its negative bound
    out = compiled(name, "product")(*[(limbs(field, a), limbs(field, b)) for a, b in pairs])
    values = [(whole(field, a), whole(field, b)) for a, b in pairs]
    slack = field.p // 2 if isinstance(field, HybridField) else field.p
    for k, got in enumerate(whole(field, out)):
        exact = sum(a[k] * b[k] for a, b in values)
        assert (got * field.radix - exact) % field.p == 0, k
        assert abs(got) <= sum(abs(a[k] * b[k]) for a, b in values) // field.radix + slack + 1
    for limb in out[:-1]:
        low, high = (-(1 << (field.width - 1)), 1 << (field.width - 1)) if slack != field.p else (0, 1 << field.width)
        assert np.asarray(limb).min() >= low and np.asarray(limb).max() < high


@each_field
def test_admits_refuses_what_overflows(name):
    field = FIELDS[name]
    assert not field.admits((2**62, 2**62))
    largest = next(k for k in range(1, 40) if not field.admits(*[(1 << field.width, 1 << field.width)] * k))
    assert not field.admits(*[(1 << field.width, 1 << field.width)] * (largest + 1))


@each_field
def test_square_is_the_product_with_itself(name):
    field = FIELDS[name]
    a = extremes(
        field, min(PAIRS[name][1][0]), np.random.default_rng(1))
    value = whole(field, a)
    for got, x in zip(whole(field, compiled(name, "square")(limbs(field, a))), value):
        assert (got * field.radix - x * x) % field.p == 0


def corners(field) -> list[int]:
    """Integers where a reduction could go wrong, up to the largest that `reduce` takes."""
    p, most = field.p, (1 << (32 - field.width)) - 3 if field.dtype is np.int32 else 60
    near = [0, 1, 2, p - 1, p - 2, (p - 1) // 2, (p + 1) // 2, 1 << 52, 1 << 64, (1 << 208) - 1]
    return [sign * (x + k * p) for x in near for k in (0, 1, most) for sign in (1, -1)]


def as_lazy(field, value: int) -> list[int]:
    """Limbs of exactly `value`, balanced ones spoilt by multiples of 2^width moved down."""
    digits = field._balance(value)
    spoil = 1 if field.dtype is np.int32 else 3
    for i in range(field.count - 1):
        digits[i + 1] -= spoil if i % 2 else -spoil
        digits[i] += (spoil if i % 2 else -spoil) << field.width
    return digits


@each_field
def test_reduce_and_canonical_at_the_corners(name):
    field = FIELDS[name]
    values = corners(field)
    lazy = limbs(field, np.array([as_lazy(field, v) for v in values]).T)
    assert whole(field, lazy) == values
    for got, x in zip(whole(field, compiled(name, "carry")(lazy)), values):
        assert got == x
    for got, x in zip(whole(field, compiled(name, "reduce")(lazy)), values):
        assert (got - x) % field.p == 0 and abs(got) <= field.p // 2 + (field.p >> 40)
    canonical = compiled(name, "canonical")(lazy)
    assert whole(field, canonical) == [x % field.p for x in values]
    assert all(0 <= int(np.min(c)) and int(np.max(c)) < 1 << field.width for c in canonical)
    zero = np.asarray(compiled(name, "is_zero")(lazy))
    assert zero.tolist() == [x % field.p == 0 for x in values]


@each_field
def test_carry_balances_the_widest_limbs(name):
    field = FIELDS[name]
    a = extremes(field, 30 if field.dtype is np.int32 else 60, np.random.default_rng(2))
    out = compiled(name, "carry")(limbs(field, a))
    half = 1 << (field.width - 1)
    assert all(-half <= int(np.min(x)) and int(np.max(x)) < half for x in out[:-1])
    assert whole(field, out) == whole(field, a)


@each_field
def test_words_and_limbs(name):
    field = FIELDS[name]
    count = -(-field.p.bit_length() // 64)
    values = [v for v in corners(field) if 0 <= v < 1 << (64 * count)] + [(1 << (64 * count - 1)) - 1]
    words = [np.array([(v >> (64 * k)) & (2**64 - 1) for v in values], np.uint64) for k in range(count)]
    unpacked = compiled(name, "words")(words)
    assert whole(field, unpacked) == values
    below = [v % field.p for v in values]
    mask = (1 << field.width) - 1
    digits = [[(v >> (field.width * i)) & mask for v in below] for i in range(field.count)]
    again = compiled(name, "to_words")(limbs(field, digits))
    assert [sum(int(again[k][n]) << (64 * k) for k in range(count)) for n in range(len(below))] == below


@each_field
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_ring_axioms(name, data):
    field = FIELDS[name]
    value = st.one_of(st.integers(0, field.p - 1), st.sampled_from([0, 1, field.p - 1, field.p // 2, field.p // 2 + 1]))
    xs, ys, zs = ([data.draw(value) for _ in range(8)] for _ in range(3))
    x, y, z = (list(field.to_limbs(v)) for v in (xs, ys, zs))
    product = compiled(name, "product")
    assert field.to_ints(x) == xs
    assert field.to_ints(product((x, y))) == [a * b % field.p for a, b in zip(xs, ys)]
    assert field.to_ints(product((field.add(x, y), z))) == [(a + b) * c % field.p for a, b, c in zip(xs, ys, zs)]
    assert field.to_ints(field.sub(x, field.neg(y))) == [(a + b) % field.p for a, b in zip(xs, ys)]
    chosen = field.select(np.array([True, False] * 4), x, y)
    assert field.to_ints(chosen) == [(ys if k % 2 else xs)[k] for k in range(8)]
    assert field.to_ints(field.constant(xs[0], (2,))) == xs[:1] * 2


@each_field
def test_moduli(name):
    assert FIELDS[name].p in (R_ORDER, Q_PRIME)
    assert FIELDS[name].p < FIELDS[name].radix
