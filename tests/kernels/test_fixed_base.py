"""Many multiples of the generators against arkworks."""
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_cli.kernels import fixed_base
from cuzk_cli.kernels.curve import R_ORDER as R

from .known import GROUPS, encodings, words


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.integers(1, R - 1), st.sampled_from([1, 2, R - 1, R - 2, R // 2, 1 << 254])))
def test_odd_digits_spell_the_scalar(k):
    total = 0
    for i, entry in enumerate(fixed_base.digits(words([k]))[0]):
        row, sign = int(entry) >> 1, -1 if entry & 1 else 1
        window, j = divmod(row, 1 << (fixed_base.WINDOW - 1))
        assert window == i
        total += sign * (2 * j + 1) << (fixed_base.WINDOW * i)
    assert total % R == k


@pytest.mark.parametrize("name", GROUPS)
def test_multiples(name):
    rng = random.Random(4)
    scalars = [0, 1, 2, 3, R - 1, R - 2, R // 2, R // 2 + 1, 1 << 254, 0] + [rng.randrange(R) for _ in range(30)]
    assert (fixed_base.multiply(words(scalars), GROUPS[name][0]) == encodings(name, scalars)).all()
