"""Bucket aggregation: for windows of buckets B_1 … B_k, the sums ΣB_i and Σ i·B_i by running sums in lanes.

Each lane runs over STEPS neighbouring buckets from the highest down; neighbouring lanes of a window are then merged
pairwise. All additions are complete projective ones, and all go through one call site, so that the formula is compiled
once: a loop whose steps differ in what they add.
"""
from __future__ import annotations

import functools

import numpy as np

import jax.numpy as jnp
from jax import lax

from .curve import Group
from .devices import SHARDED, compile_sharded

STEPS = 32                  # buckets of a lane
LANES = 2048                # lanes of one call
BUCKETS = STEPS * LANES     # of one call

# S = ΣB, T = Σ i·B (from 0), D = (buckets of a lane)·S; a prime marks the neighbour 2^level lanes on
_BUCKET = 0                 # S, T = S + B, T + S
_DOUBLE = 1                 # D = 2D
_MERGE = 2                  # S, T = S + S', T + T'
_SHIFT = 3                  # D, T = D + D', T + D'
_LOG_LANES = LANES.bit_length() - 1
_MODES = np.array([_BUCKET] * STEPS + [_DOUBLE] * (STEPS.bit_length() - 1)
                  + [_MERGE, _SHIFT, _DOUBLE] * _LOG_LANES, np.int32)
_FIRST_LEVEL = STEPS + STEPS.bit_length() - 1


def _aggregate(group: Group, rows, index, levels):
    field, n = group.field, group.field.count

    def points(a):                          # [2, 3n, LANES] -> x, y, z of 2·LANES lanes
        return [[jnp.concatenate([a[0, k * n + i], a[1, k * n + i]]) for i in range(n)] for k in range(3)]

    def bucket(i):                          # projective [3n, LANES]
        q = rows.at[jnp.maximum(i, 0)].get(mode="promise_in_bounds").T
        q = [q[k] for k in range(2 * n)]
        infinite = field.all_zero(q[n:]) | (i < 0)
        one, zero = field.constant(1, infinite.shape), [jnp.zeros_like(v) for v in q[:n]]
        return jnp.stack(field.select(infinite, zero, q[:n]) + field.select(infinite, one, q[n:])
                         + field.select(infinite, zero, one))

    def step(k, state):
        s, t, d = state
        mode = jnp.asarray(_MODES)[k]
        lane = jnp.arange(LANES) + (1 << jnp.maximum((k - _FIRST_LEVEL) // 3, 0))
        lane = jnp.where(lane < LANES, lane, lane - LANES)
        left, right = lax.switch(mode, [
            lambda: ((s, t), (bucket(index[jnp.minimum(k, STEPS - 1)]), s)),
            lambda: ((d, d), (d, d)),
            lambda: ((s, t), (s[:, lane], t[:, lane])),
            lambda: ((d, t), (d[:, lane], d[:, lane])),
        ])
        total = group.complete_add(points(jnp.stack(left)), points(jnp.stack(right)))
        total = jnp.stack([v for c in total for v in c])
        u, v = total[:, :LANES], total[:, LANES:]
        return lax.switch(mode, [lambda: (u, v, u), lambda: (s, t, u), lambda: (u, v, d), lambda: (s, v, u)])

    zero = [jnp.zeros((LANES,), field.dtype)] * n
    infinity = jnp.stack(zero + field.constant(1, (LANES,)) + zero)
    s, t, _ = lax.fori_loop(0, _FIRST_LEVEL + 3 * levels[0], step, (infinity, infinity, infinity))
    return jnp.concatenate([s.reshape(3, n, LANES), t.reshape(3, n, LANES)], axis=2)[None]


@functools.cache
def program(group: Group):
    """(rows [shards·R, 2n], index int32 [shards·STEPS, LANES], levels int32[shards]) -> [shards, xyz, n, 2·LANES].

    index[k, lane]: the row of the (STEPS − k)-th bucket of a lane, −1 for an empty one. 2^levels lanes, aligned, are a
    window; its sums stand in its first lane (ΣB_i) and in LANES + that lane (Σ i·B_i, counting from 0).
    """
    return compile_sharded(functools.partial(_aggregate, group), (SHARDED,) * 3, SHARDED)
