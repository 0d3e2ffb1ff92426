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
LANES = 2048                # lanes of one call, at most
_FEW = 256                  # of a call that needs no more: a step then costs an eighth

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
    field, n, lanes = group.field, group.field.count, index.shape[1]

    def points(a):                          # [2, 3n, lanes] -> x, y, z of twice as many lanes
        return [[jnp.concatenate([a[0, k * n + i], a[1, k * n + i]]) for i in range(n)] for k in range(3)]

    def bucket(i):                          # projective [3n, lanes]
        q = rows.at[jnp.maximum(i, 0)].get(mode="promise_in_bounds").T
        q = [q[k] for k in range(2 * n)]
        infinite = field.all_zero(q[n:]) | (i < 0)
        one, zero = field.constant(1, infinite.shape), [jnp.zeros_like(v) for v in q[:n]]
        return jnp.stack(field.select(infinite, zero, q[:n]) + field.select(infinite, one, q[n:])
                         + field.select(infinite, zero, one))

    def step(k, state):
        s, t, d = state
        mode = jnp.asarray(_MODES)[k]
        lane = jnp.arange(lanes) + (1 << jnp.maximum((k - _FIRST_LEVEL) // 3, 0))
        lane = jnp.where(lane < lanes, lane, lane - lanes)
        left, right = lax.switch(mode, [
            lambda: ((s, t), (bucket(index[jnp.minimum(k, STEPS - 1)]), s)),
            lambda: ((d, d), (d, d)),
            lambda: ((s, t), (s[:, lane], t[:, lane])),
            lambda: ((d, t), (d[:, lane], d[:, lane])),
        ])
        total = group.complete_add(points(jnp.stack(left)), points(jnp.stack(right)))
        total = jnp.stack([v for c in total for v in c])
        u, v = total[:, :lanes], total[:, lanes:]
        return lax.switch(mode, [lambda: (u, v, u), lambda: (s, t, u), lambda: (u, v, d), lambda: (s, v, u)])

    zero = [jnp.zeros((lanes,), field.dtype)] * n
    infinity = jnp.stack(zero + field.constant(1, (lanes,)) + zero)
    s, t, _ = lax.fori_loop(0, _FIRST_LEVEL + 3 * levels[0], step, (infinity, infinity, infinity))
    return jnp.concatenate([s.reshape(3, n, lanes), t.reshape(3, n, lanes)], axis=2)[None]


def lanes_for(count: int) -> int:
    """Lanes of the call that takes `count` of them, at most LANES."""
    return _FEW if count <= _FEW else LANES


@functools.cache
def program(group: Group):
    """(rows [shards·R, 2n], index int32 [shards·STEPS, lanes], levels int32[shards]) -> [shards, xyz, n, 2·lanes].

    index[k, lane]: the row of the (STEPS − k)-th bucket of a lane, −1 for an empty one. 2^levels lanes, aligned, are a
    window; its sums stand in its first lane (ΣB_i) and in lanes + that lane (Σ i·B_i, counting from 0). Compiled once
    for each number that `lanes_for` gives.
    """
    return compile_sharded(functools.partial(_aggregate, group), (SHARDED,) * 3, SHARDED)
