"""Scalar field on the host against Python integers."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.protocol import fr
from cuzk_cli.protocol.compiled import njit

R = fr.R_ORDER
EXTREMES = [0, 1, 2, R - 1, R - 2, R // 2, R // 2 + 1, 2**64 - 1, 2**64, 2**128 - 1, 2**192, 2**254, fr.MONTGOMERY_R]
ANY_256 = [R, R + 1, 2 * R - 1, 2**255 - 1, 2**255, 2**256 - 1]
elements = st.one_of(st.sampled_from(EXTREMES), st.integers(0, R - 1))
INVERSE = pow(1 << 256, -1, R)


def raw(values) -> np.ndarray:
    """Integers below 2^256 as words, not reduced."""
    return np.frombuffer(b"".join(v.to_bytes(32, "little") for v in values), "<u8").reshape(-1, 4).copy()


@njit
def _operations(a, b, out):
    for i in range(len(a)):
        x, y = fr.load(a, i), fr.load(b, i)
        fr.store(out[0], i, fr.mont_mul(x, y))
        fr.store(out[1], i, fr.add_mod(x, y))
        fr.store(out[2], i, fr.sub_mod(x, y))


def operations(pairs) -> list[list[int]]:
    """Products, sums and differences of pairs."""
    out = np.empty((3, len(pairs), 4), np.uint64)
    _operations(raw(a for a, _ in pairs), raw(b for _, b in pairs), out)
    return [fr.to_ints(part) for part in out]


def expected(pairs) -> list[list[int]]:
    return [[a * b * INVERSE % R for a, b in pairs], [(a + b) % R for a, b in pairs], [(a - b) % R for a, b in pairs]]


def test_operations_at_the_extremes():
    pairs = [(a, b) for a in EXTREMES for b in EXTREMES]
    assert operations(pairs) == expected(pairs)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(elements, elements), min_size=1, max_size=40))
def test_operations(pairs):
    assert operations(pairs) == expected(pairs)


def test_product_admits_one_operand_of_256_bits():
    pairs = [(a, b) for a in ANY_256 for b in EXTREMES] + [(b, a) for a in ANY_256 for b in EXTREMES]
    assert operations(pairs)[0] == expected(pairs)[0]


def test_montgomery_form_and_back():
    values = EXTREMES + ANY_256
    montgomery = fr.to_mont_rows(raw(values))
    assert fr.to_ints(montgomery) == [v * fr.MONTGOMERY_R % R for v in values]
    assert fr.to_ints(fr.from_mont_rows(montgomery)) == [v % R for v in values]


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, R - 2, R - 1, 2**255 - 19])
def test_power(exponent):
    base = tuple(fr.to_mont_rows(raw([0x1234567890ABCDEF << 180]))[0])
    value = fr.from_mont_rows(np.array([fr.pow_mont(base, raw([exponent])[0])], np.uint64))
    assert fr.to_ints(value) == [pow(0x1234567890ABCDEF << 180, exponent, R)]


@given(st.lists(st.integers(-R, 2 * R), max_size=20))
def test_words_and_integers(values):
    words = fr.to_words(values)
    assert words.shape == (len(values), 4) and words.dtype == np.uint64
    assert fr.to_ints(words) == [v % R for v in values]
    assert words.tobytes() == b"".join((v % R).to_bytes(32, "little") for v in values)


@given(st.lists(st.one_of(elements, st.sampled_from(ANY_256)), max_size=12))
def test_first_row_that_is_no_element(values):
    bad = [i for i, v in enumerate(values) if v >= R]
    assert fr.first_not_below_order(raw(values)) == (bad[0] if bad else -1)


@pytest.mark.parametrize("log_n", [0, 1, 2, 21, 32])
def test_root_of_unity_is_primitive(log_n):
    root = fr.root_of_unity(log_n)
    assert pow(root, 1 << log_n, R) == 1
    assert log_n == 0 or pow(root, 1 << (log_n - 1), R) == R - 1
