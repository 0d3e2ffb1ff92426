"""Transforms against the polynomial itself: every value of small sizes, random ones of large sizes, and the inverse."""
import os
import random
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from cuzk_cli.kernels import ntt
from cuzk_cli.kernels.field import R_ORDER, scalar_field

HYBRID, INT32 = scalar_field("cpu"), scalar_field("cuda")


def evaluate(coefficients: list[int], point: int) -> int:
    total = 0
    for c in reversed(coefficients):
        total = (total * point + c) % R_ORDER
    return total


def columns(plan, values: list[int]) -> list:
    return [a.reshape(plan.shape.factors[0], -1) for a in plan.field.to_limbs(values, montgomery=False)]


def check(log_n: int, field, devices: int, values: list[int]) -> None:
    plan = ntt.plan(log_n, field, tuple(jax.local_devices()[:devices]))
    r1, r2, r3 = plan.shape.factors
    got = field.to_ints(plan.forward(columns(plan, values)), montgomery=False)
    order, w = plan.value_order(), ntt.root_of_unity(log_n)
    assert sorted(order) == list(range(1 << log_n))
    for place in range(1 << log_n) if log_n <= 6 else random.Random(log_n).sample(range(1 << log_n), 6):
        assert got[place] == evaluate(values, pow(w, int(order[place]), R_ORDER)), place
    rows = [a.reshape(r1, r3, r2) for a in field.to_limbs(got, montgomery=False)]
    assert field.to_ints(plan.inverse(rows), montgomery=False) == values


def some_values(log_n: int) -> list[int]:
    rng = random.Random(log_n)
    return [rng.choice([0, 1, R_ORDER - 1, R_ORDER // 2, rng.randrange(R_ORDER)]) for _ in range(1 << log_n)]


@pytest.mark.parametrize("log_n", [1, 4, 8])
def test_small_transform(log_n):
    check(log_n, HYBRID, jax.local_device_count(), some_values(log_n))


@pytest.mark.parametrize("log_n", [2, 3, 5, 6, 9, 12, 13])
def test_transform(log_n):
    check(log_n, HYBRID, jax.local_device_count(), some_values(log_n))


@pytest.mark.parametrize("value", [R_ORDER - 1, R_ORDER // 2, R_ORDER // 2 + 1, 0])
def test_all_equal(value):
    check(8, HYBRID, jax.local_device_count(), [value] * 256)


def test_one_device():
    check(9, HYBRID, 1, some_values(9))


@pytest.mark.parametrize("log_n", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_the_int32_form(log_n):
    check(log_n, INT32, jax.local_device_count(), some_values(log_n))


def test_widest_limbs_that_are_allowed():
    plan = ntt.plan(8, HYBRID)
    limbs = np.random.default_rng(0).choice([-2**52, 2**52, 2**52 - 1, 0], (5, 256))
    limbs[:, :128] = 2**52 * np.sign(limbs[:, :1] + 0.5).astype(np.int64)
    values = HYBRID.to_ints(limbs, montgomery=False)
    got = HYBRID.to_ints(plan.forward([a.reshape(plan.shape.factors[0], -1) for a in limbs]), montgomery=False)
    w = ntt.root_of_unity(8)
    assert got == [evaluate(values, pow(w, int(k), R_ORDER)) for k in plan.value_order()]


def test_shapes_cover_every_size():
    for platform in ("cpu", "cuda"):
        for devices in (1, 2, 4, 64):
            for log_n in range(1, 28):
                s = ntt.shape_of(log_n, devices, platform)
                r1, r2, r3 = s.factors
                assert r1 * r2 * r3 == s.size == 1 << log_n
                assert r1 % (s.devices * s.rows) == 0 and s.width % (s.devices * s.lanes) == 0
                assert s.devices == devices or log_n < 12
                assert ntt._is_lazy(HYBRID, max(s.log1, s.log2)) or platform != "cpu"


def test_plans_are_kept_and_sizes_checked():
    assert ntt.plan(8) is ntt.plan(8, HYBRID, tuple(jax.local_devices()))
    for log_n in (0, 28):
        with pytest.raises(ValueError, match="1 to 27"):
            ntt.plan(log_n)


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}, {"JAX_NUM_CPU_DEVICES": "1"},
                                       {"JAX_NUM_CPU_DEVICES": "4"}], ids=["avx2", "1-device", "4-devices"])
def test_other_machines(variables):
    """Products and a small transform on a CPU without AVX-512, and on other numbers of devices."""
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(here / "test_field.py"),
               str(here / "test_ntt.py"), "-k", "(product and hybrid) or small_transform"]
    done = subprocess.run(command, env=os.environ | variables, cwd=here.parent.parent,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("log_n", [17, 20, 21, 22])
def test_large_transform_at_random_points(log_n):
    plan = ntt.plan(log_n)
    rng, n = np.random.default_rng(log_n), 1 << log_n
    limbs = rng.integers(-2**46, 2**46, (5, n))
    got = plan.forward([a.reshape(plan.shape.factors[0], -1) for a in limbs])
    values = HYBRID.to_ints(limbs, montgomery=False)
    order, w = plan.value_order(), ntt.root_of_unity(log_n)
    flat = [np.asarray(a).reshape(-1) for a in got]
    for place in [0, 1, n - 1, *rng.integers(0, n, 3)]:
        value = HYBRID.to_ints([a[place:place + 1] for a in flat], montgomery=False)[0]
        assert value == evaluate(values, pow(w, int(order[place]), R_ORDER)), place
    back = plan.inverse([a.reshape(got[0].shape) for a in _canonical(flat)])
    assert HYBRID.to_ints(back, montgomery=False) == values


@jax.jit
def _canonical(limbs):
    return HYBRID.canonical(limbs)
