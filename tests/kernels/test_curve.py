"""Host arithmetic against arkworks, complete formulas on batches against host arithmetic."""
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cuzk_cli.kernels import curve

from .known import GROUPS, encode, host_point, scalar


@pytest.mark.parametrize("name", GROUPS)
def test_generator_is_on_the_curve_and_has_the_group_order(name):
    group, _ = GROUPS[name]
    h, (x, y) = group.host, group.generator
    assert h.mul(y, y) == h.add(h.mul(h.mul(x, x), x), group.b if group.extension else 4)
    assert group.multiply(curve.R_ORDER) is None and group.multiply(0) is None
    minus = group.multiply(curve.R_ORDER - 1)
    assert minus[0] == x and h.add(minus[1], y) == h.zero


@pytest.mark.parametrize("name", GROUPS)
def test_multiples_are_those_of_arkworks(name):
    group, kind = GROUPS[name]
    rng = random.Random(1)
    for k in (1, 2, 3, curve.R_ORDER - 2, rng.randrange(curve.R_ORDER)):
        x, y = group.multiply(k)
        flat = lambda v: v[::-1] if group.extension else (v,)
        data = b"".join(c.to_bytes(48, "big") for v in (x, y) for c in flat(v))
        assert data == encode(group, kind() * scalar(k)).tobytes()


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("make", [curve.g1, curve.g2])
def test_complete_addition_of_every_pair_of_special_points(make, platform):
    """Over both forms of the field; the limbs of products are the largest that sums of points have."""
    group = make(platform)
    field, n = group.field, group.field.count
    points = [None] + [group.multiply(k) for k in (1, 2, curve.R_ORDER - 1, 12345)]
    pairs = [(p, q) for p in points for q in points]
    pairs += [pairs[0]] * (32 - len(pairs))

    def batch(side):
        rows = group.rows([pair[side] for pair in pairs])
        one = np.array([v[0] for v in field.constant(1, (1,))])
        rows[~rows.any(axis=1), n:] = one
        z = np.where([[pair[side] is not None] for pair in pairs], one, 0)
        return [[jnp.asarray(part[:, i]) for i in range(n)] for part in (rows[:, :n], rows[:, n:], z)]

    add = jax.jit(group.complete_add)
    out = add(batch(0), batch(1))
    cancelled = add(add(out, out), [out[0], [-v for v in out[1]], out[2]])      # (2 S) - S, of sums of sums
    for i, (p, q) in enumerate(pairs):
        want = group.affine(group.add(group.projective(p), group.projective(q)))
        for sums in (out, cancelled):
            got = tuple(group.coordinate([np.asarray(v)[i] for v in c]) for c in sums)
            assert group.affine(got) == want, i


def test_rows_round_trip():
    for group, _ in GROUPS.values():
        points = [group.multiply(k) for k in (1, 5)] + [None]
        rows = group.rows(points)
        assert [host_point(group, rows, i) for i in range(3)] == points
