"""Batched-affine accumulation: many lanes, each the running sum of points picked from a table.

1. A lane holds an affine sum; LANES lanes are a tile, BLOCK tiles a block. A *pass* adds one table row to every lane of
   some leading tiles of one block: it is a *job* (first tile, tiles, first row of entries).
2. A job goes forward over its tiles, multiplying the denominators x2 − x1 up, inverts the LANES products at once
   (Montgomery's trick, 16 to 1 a level, Fermat on the last 16), and goes back, finishing each addition while its tile
   is in cache.
3. An entry is 2·row + (1 to negate). The table's last row is the dummy: its lanes stay as they are.

Exceptions: the *careful* program masks lanes where a side is infinity or the points are equal or opposite. The *fast*
one has no masks for those: they make the batched product zero, which is seen after the inversion and reported as `bad`;
then nothing of the result is valid.

The sums follow examples of Montgomery's simultaneous inversion in multi-exponentiations (Bos and Coster; gnark-crypto,
ecc/bls12-381/multiexp_affine.go).
"""
from __future__ import annotations

import functools

import numpy as np

import jax.numpy as jnp
from jax import lax

from .curve import Group
from .devices import EVERYWHERE, SHARDED, compile_sharded
from .field import materialise

LANES = 2048            # lanes of a tile: large enough for both loops and threads, small enough for the cache
BLOCK = 16              # tiles that share an inversion
TILES = 36              # tiles of an accumulator, all devices have as many
ROWS = 1280             # rows of entries in one dispatch: about 2.6 million additions a device, half a second
TABLE = TILES * LANES   # points of a small table; an accumulator's lanes are one

i64 = jnp.int64


def _limbs(a) -> list:
    return [a[i] for i in range(a.shape[0])]


def _fermat(base, a) -> list:
    """Inverses in the base field by a^(p−2), 4-bit windows; meant for a few lanes."""
    digits = jnp.asarray(np.array([((base.p - 2) >> (4 * i)) & 15 for i in range(96)][::-1], np.int32))
    one = base.constant(1, a[0].shape)
    _, powers = lax.scan(lambda c, _: (base.mul(c, a), jnp.stack(c)), one, None, length=16)

    def step(acc, digit):
        for _ in range(4):      # unrolled: an iteration of a loop costs more than these few lanes
            acc = base.square(acc)
        return base.mul(acc, _limbs(lax.dynamic_index_in_dim(powers, digit, 0, False))), None

    return lax.scan(step, one, digits)[0]


def invert(field, a):
    """Inverses of all lanes, and whether some lane was zero (then nothing is valid). The lanes are a power of two."""
    n = a[0].shape[0]
    if hasattr(field, "norm"):
        inverse, bad = invert(field.base, field.norm(a))
        return field.over_norm(a, inverse), bad
    if n <= 16:
        out = _fermat(field, a)
        return out, jnp.any(field.is_zero(out))
    m = max(n // 16, 16)
    d = jnp.stack([x.reshape(n // m, m) for x in a], 1)
    total, prefix = lax.scan(lambda acc, x: (field.mul(acc, _limbs(x)), jnp.stack(acc)), field.constant(1, (m,)), d)
    inverse, bad = invert(field, total)

    def back(acc, item):
        return field.mul(acc, _limbs(item[1])), jnp.stack(field.mul(acc, _limbs(item[0])))

    _, out = lax.scan(back, inverse, (prefix, d), reverse=True)
    return [out[:, i].reshape(n) for i in range(field.count)], bad


def _gather(table, entries):
    return table.at[entries >> 1].get(mode="promise_in_bounds").T


def _signed(y, entries):
    sign = -(entries & 1).astype(y[0].dtype)
    return [(v ^ sign) - sign for v in y]


_APART, _KEEP, _TAKE, _DOUBLE, _CANCEL = range(5)     # what an addition comes to: the formula, P1, P2, 2·P1, infinity


def _kind(field, x1, y1, x2, y2):
    """Which of the five each lane is; one loop."""
    same, equal = field.is_zero(field.sub(x2, x1)), field.is_zero(field.sub(y2, y1))
    kind = jnp.where(same, jnp.where(equal, _DOUBLE, _CANCEL), _APART)
    kind = jnp.where(field.all_zero(y1), _TAKE, kind)
    return materialise([jnp.where(field.all_zero(y2), _KEEP, kind).astype(jnp.int32)])[0]


def _accumulate(group: Group, careful: bool, table, accumulator, entries, jobs, count):
    field, n = group.field, group.field.count
    dummy = table.shape[0] - 1
    settle = field.reduce if field.dtype is np.int32 else field.carry   # `is_zero` of int32 limbs holds to 14 p only

    def denominator(x1, y1, x2, kind):
        if not careful:
            return field.sub(x2, x1)
        plain = field.select(kind == _APART, field.sub(x2, x1), field.constant(1, kind.shape))
        return field.select(kind == _DOUBLE, field.add(y1, y1), plain)

    def job(j, state):
        accumulator, tile, prefix, kinds, bad = state
        base, tiles, first = jobs[j, 0], jobs[j, 1], jobs[j, 2]

        def forward(i, s):
            total, accumulator, tile, prefix, kinds = s     # threaded through: a closed-over array would be copied
            e = lax.dynamic_index_in_dim(entries, first + i, 0, False)
            q, a = _gather(table, e), lax.dynamic_index_in_dim(accumulator, base + i, 0, False)
            tile = lax.dynamic_update_index_in_dim(tile, q, i, 0)
            prefix = lax.dynamic_update_index_in_dim(prefix, jnp.stack(total), i, 0)
            x1, y1, x2, kind = _limbs(a[:n]), _limbs(a[n:]), _limbs(q[:n]), None
            if careful:
                kind = _kind(field, x1, y1, x2, _signed(_limbs(q[n:]), e))
                kinds = lax.dynamic_update_index_in_dim(kinds, kind, i, 0)
            return field.mul(total, denominator(x1, y1, x2, kind)), accumulator, tile, prefix, kinds

        one = field.constant(1, (LANES,))
        total, *state = lax.fori_loop(0, tiles, forward, (one, accumulator, tile, prefix, kinds))
        inverse, zero = invert(field, total)

        def backward(k, s):
            (run, accumulator, tile, prefix, kinds), i = s, tiles - 1 - k
            e = lax.dynamic_index_in_dim(entries, first + i, 0, False)
            q, a, p = (lax.dynamic_index_in_dim(v, t, 0, False)
                       for v, t in ((tile, i), (accumulator, base + i), (prefix, i)))
            a, accumulator = lax.optimization_barrier((a, accumulator))     # or XLA copies all of it before the update
            x1, y1, x2, y2 = _limbs(a[:n]), _limbs(a[n:]), _limbs(q[:n]), _signed(_limbs(q[n:]), e)
            inv, slope = field.mul(run, _limbs(p)), field.sub(y2, y1)
            kind = lax.dynamic_index_in_dim(kinds, i, 0, False) if careful else None
            if careful:
                tangent = [3 * v for v in field.product((x1, x1))]
                slope = field.materialise(field.carry(field.select(kind == _DOUBLE, tangent, slope)))
            run = field.mul(run, denominator(x1, y1, x2, kind))
            slope = field.mul(slope, inv)
            x3 = field.materialise(field.reduce([u - v - w for u, v, w in zip(field.product((slope, slope)), x1, x2)]))
            y3 = settle(field.sub(field.product((slope, field.sub(x1, x3))), y1))
            if careful:
                pick = lambda v, v1, v2: field.select(kind == _KEEP, v1, field.select(
                    kind == _TAKE, v2, [jnp.where(kind == _CANCEL, 0, u) for u in v]))
                new = pick(x3, x1, x2) + field.materialise(pick(y3, y1, y2))
            else:
                valid = (e >> 1) != dummy
                new = field.select(valid, x3, x1) + field.materialise(field.select(valid, y3, y1))
            accumulator = lax.dynamic_update_index_in_dim(accumulator, jnp.stack(new), base + i, 0)
            return run, accumulator, tile, prefix, kinds

        _, *state = lax.fori_loop(0, tiles, backward, (inverse, *state))
        return *state, bad | zero

    z = jnp.zeros((BLOCK, 2 * n, LANES), field.dtype)
    kinds = jnp.zeros((BLOCK if careful else 0, LANES), jnp.int32)
    accumulator, *_, bad = lax.fori_loop(0, count[0], job, (accumulator, z, z[:, :n], kinds, False))
    return accumulator, bad[None]


@functools.cache
def program(group: Group, careful: bool):
    """(table everywhere [T, 2n], accumulator [shards·TILES, 2n, LANES], entries int32 [shards·ROWS, LANES],
    jobs int32 [shards·ROWS, 3], count int32 [shards]) -> (accumulator, bad bool[shards]). Compiled once per table size.

    Coordinates: x leaves in [−p/2, p/2], and so does y in int32 limbs; in the hybrid form |y3| ≤ p/2 + |y1|, so that y
    grows by p/2 a pass at most, far below the spare bits.
    """
    return compile_sharded(functools.partial(_accumulate, group, careful),
                           (EVERYWHERE,) + (SHARDED,) * 4, (SHARDED, SHARDED), donate=(1,))


@functools.cache
def loader(group: Group):
    """(table, entries [shards·TILES, LANES]) -> accumulator that starts with these entries; a dummy is infinity."""
    field, n = group.field, group.field.count

    def load(table, entries):
        def tile(e):
            q = _limbs(_gather(table, e))
            q = q[:n] + _signed(q[n:], e)
            return jnp.stack(field.select((e >> 1) != table.shape[0] - 1, q, [jnp.zeros_like(v) for v in q]))
        return lax.map(tile, entries)

    return compile_sharded(load, (EVERYWHERE, SHARDED), SHARDED)


@functools.cache
def lanes_as_rows(group: Group):
    """accumulator -> rows [shards·TABLE, 2n], lane by lane."""
    return compile_sharded(lambda a: jnp.swapaxes(a, 1, 2).reshape(-1, 2 * group.field.count), (SHARDED,), SHARDED)


def dummy_row(group: Group) -> np.ndarray:
    """A row that is no point: x = 1, y = 0."""
    field = group.field
    base = field.base if group.extension else field
    row = np.zeros(2 * field.count, field.dtype)
    row[:base.count] = base.to_limbs([1])[:, 0]
    return row
