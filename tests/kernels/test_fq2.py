"""Fq2 on batches, over both forms of the base field, against pairs of Python integers."""
import functools
import random

import jax
import numpy as np
import pytest

from cuzk_cli.kernels import runtime
from cuzk_cli.kernels.accumulate import invert
from cuzk_cli.kernels.curve import P, HostFq2
from cuzk_cli.kernels.field import base_field
from cuzk_cli.kernels.fq2 import Quadratic

FIELDS = {"hybrid": Quadratic(base_field("cpu")), "int32": Quadratic(base_field("gpu"))}
each_field = pytest.mark.parametrize("name", FIELDS)
_rng = random.Random(11)
_EDGES = [0, 1, P - 1, P // 2, P // 2 + 1, 2]
VALUES = [(a, b) for a in _EDGES for b in _EDGES] + [(_rng.randrange(P), _rng.randrange(P)) for _ in range(28)]
OTHERS = VALUES[1:] + VALUES[:1]        # 64 pairs


def limbs(field, values) -> list:
    base = field.base
    return [np.asarray(v) for k in range(2) for v in base.to_limbs([value[k] for value in values])]


def values(field, out) -> list:
    base, n = field.base, field.base.count
    return list(zip(*(base.to_ints([np.asarray(v) for v in out[k:k + n]]) for k in (0, n))))


@functools.cache
def compiled(name: str, operation: str):
    field = FIELDS[name]
    functions = {
        "mul": field.mul,
        "square": field.square,
        "two products": lambda a, b: field.materialise(field.product((a, b), (field.neg(b), a), (a, b))),
        "canonical of a - b": lambda a, b: field.canonical(field.sub(a, b)),
        "zero": lambda a, b: field.is_zero(field.sub(a, b)),
        "norm": field.norm,
        "inverse": lambda a: invert(field, a),
    }
    return jax.jit(functions[operation], compiler_options=runtime.compiler_options())


@each_field
def test_products(name):
    field, h = FIELDS[name], HostFq2
    a, b = limbs(field, VALUES), limbs(field, OTHERS)
    assert values(field, compiled(name, "mul")(a, b)) == [h.mul(x, y) for x, y in zip(VALUES, OTHERS)]
    assert values(field, compiled(name, "square")(a)) == [h.mul(x, x) for x in VALUES]
    assert values(field, compiled(name, "two products")(a, b)) == [h.mul(x, y) for x, y in zip(VALUES, OTHERS)]


@each_field
def test_differences_are_zero_only_of_equal_elements(name):
    field = FIELDS[name]
    a, b = limbs(field, VALUES), limbs(field, VALUES[:32] + OTHERS[32:])
    want = [x == y for x, y in zip(VALUES, VALUES[:32] + OTHERS[32:])]
    assert np.asarray(compiled(name, "zero")(a, b)).tolist() == want
    out = compiled(name, "canonical of a - b")(a, b)
    assert values(field, out) == [HostFq2.sub(x, y) for x, y in zip(VALUES, VALUES[:32] + OTHERS[32:])]
    assert all((np.asarray(v) >= 0).all() for v in out)


@each_field
def test_norms(name):
    field = FIELDS[name]
    norms = field.base.to_ints(compiled(name, "norm")(limbs(field, VALUES)))
    assert norms == [(a * a + b * b) % P for a, b in VALUES]


@each_field
def test_inverses_of_many_lanes_and_a_zero_among_them(name):
    field = FIELDS[name]
    some = [v for v in VALUES if v != (0, 0)]
    some += some[:1] * (64 - len(some))
    out, bad = compiled(name, "inverse")(limbs(field, some))
    assert values(field, out) == [HostFq2.inverse(v) for v in some] and not bad
    assert compiled(name, "inverse")(limbs(field, some[:-1] + [(0, 0)]))[1]
