"""The curve kernels over the int32 form of the field, which GPUs run, on the CPU."""
import random

import numpy as np
import pytest

from cuzk_cli.kernels import curve, msm, points
from cuzk_cli.kernels.curve import R_ORDER as R
from cuzk_cli.kernels.devices import put_sharded, shards

from .known import encodings, words

GROUPS = [pytest.param("g1", curve.g1("gpu")), pytest.param("g2", curve.g2("gpu"), marks=pytest.mark.slow)]
N = 96


@pytest.mark.parametrize("name, group", GROUPS)
def test_points_and_multiplication(name, group):
    rng = random.Random(5)
    logarithms = [rng.randrange(R) for _ in range(N)]
    logarithms[3:6] = logarithms[0], R - logarithms[1], 0       # an equal point, an opposite one, infinity
    scalars = [rng.choice([0, 1, R - 1, rng.randrange(R)]) for _ in range(N)]
    encoded = encodings(name, logarithms)
    rows = points.decode(encoded, group)
    whole = N // shards() * shards()
    assert (points.encode(put_sharded(rows[:whole]), group) == encoded[:whole]).all()
    table = msm.point_table(encoded, group)
    for k in (scalars, [scalars[-1] or 5] * N, [1] * N):
        assert msm.msm(table, words(k)) == group.multiply(sum(a * b for a, b in zip(logarithms, k)) % R)


def test_a_sum_meets_itself_after_many_batches():
    """Passes without end: y must not drift beyond what `is_zero` can tell from zero."""
    group = curve.g1("gpu")
    summation, encoded = msm.Summation(group), encodings("g1", [7, R - 5, 11])
    for _ in range(80):
        summation.add(encoded)
    assert summation.total() == group.multiply(80 * 13)
    summation.add(encodings("g1", [80 * 7, -80 * (R - 5), 1]))      # double, cancel, and neither
    assert summation.total() == group.multiply(80 * 13 + 560 + 400 + 1)


def test_coordinates_stay_small():
    """After 80 passes |y| is below p / 2 and a little, as the contract of `accumulate.program` says."""
    group = curve.g1("gpu")
    summation, encoded = msm.Summation(group), encodings("g1", [7, R - 5, 11])
    for _ in range(80):
        summation.add(encoded)
    field, n = group.field, group.field.count
    sums = np.asarray(summation._accumulator)[0, :, :3].astype(object)
    for c in (sums[:n], sums[n:]):
        for lane in range(3):
            value = sum(int(c[i, lane]) << (field.width * i) for i in range(n))
            assert abs(value) <= field.p * 0.51
