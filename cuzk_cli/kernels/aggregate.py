"""Bucket aggregation: for windows of buckets B_1 … B_k, the sums ΣB_i and Σ i·B_i by running sums in lanes.

Each lane runs over STEPS neighbouring buckets from the highest down; neighbouring lanes of a window are then merged
pairwise, all with complete projective formulas.
"""
from __future__ import annotations

import functools

import jax.numpy as jnp
from jax import lax

from .curve import Group
from .devices import SHARDED, compile_sharded

STEPS = 32                  # buckets of a lane
LANES = 2048                # lanes of one call
BUCKETS = STEPS * LANES     # of one call


def _cat(*parts):
    return [[jnp.concatenate(z) for z in zip(*c)] for c in zip(*parts)]


def _cut(v, a, b):
    return [[x[a:b] for x in c] for c in v]


def _aggregate(group: Group, rows, index, levels):
    field, n = group.field, group.field.count

    def step(state, i):                     # (S, T) + (B, S)
        q = rows.at[jnp.maximum(i, 0)].get(mode="promise_in_bounds").T
        q = [q[k] for k in range(2 * n)]
        infinite = field.all_zero(q[n:]) | (i < 0)
        one, zero = field.constant(1, infinite.shape), [jnp.zeros_like(v) for v in q[:n]]
        bucket = [field.select(infinite, zero, q[:n]), field.select(infinite, one, q[n:]),
                  field.select(infinite, zero, one)]
        return group.complete_add(state, _cat(bucket, _cut(state, 0, LANES))), None

    one, zero = field.constant(1, (2 * LANES,)), [jnp.zeros((2 * LANES,), field.dtype)] * n
    state, _ = lax.scan(step, [list(zero), one, list(zero)], index)
    s, t = _cut(state, 0, LANES), _cut(state, LANES, 2 * LANES)
    d = lax.fori_loop(0, STEPS.bit_length() - 1, lambda i, v: group.complete_add(v, v), s)     # STEPS · S

    def level(k, std):                      # neighbours 2^k apart: T += T' + D', S += S', D = 2(D + D')
        lane = jnp.arange(LANES)
        other_lane = lane + (1 << k)
        other_lane = jnp.where(other_lane < LANES, other_lane, other_lane - LANES)
        other = [[x.reshape(3, LANES)[:, other_lane].reshape(-1) for x in c] for c in std]
        both = group.complete_add(std, other)
        td = _cut(both, LANES, 3 * LANES)
        more = group.complete_add(td, _cat(_cut(other, 2 * LANES, 3 * LANES), _cut(both, 2 * LANES, 3 * LANES)))
        return _cat(_cut(both, 0, LANES), more)

    std = lax.fori_loop(0, levels[0], level, _cat(s, t, d))
    return jnp.stack([jnp.stack(c) for c in std])[None, :, :, :2 * LANES]


@functools.cache
def program(group: Group):
    """(rows [shards·R, 2n], index int32 [shards·STEPS, LANES], levels int32[shards]) -> [shards, xyz, n, 2·LANES].

    index[k, lane]: the row of the (STEPS − k)-th bucket of a lane, −1 for an empty one. 2^levels lanes, aligned, are a window;
    its sums stand in its first lane (ΣB_i) and in LANES + that lane (Σ i·B_i, counting from 0).
    """
    return compile_sharded(functools.partial(_aggregate, group), (SHARDED,) * 3, SHARDED)
