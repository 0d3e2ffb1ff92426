"""Many multiples of one point, for parameter generation.

A scalar k (or r − k, whichever is odd) is written with odd digits only: k = Σ d_i·2^(c·i), with d_i in
{±1, ±3, …, ±(2^c − 1)}. As 2·e_i + 1 − 2^c = d_i, the e_i are plain base-2^c digits of (k + 2^(c·w) − 1)/2 (Joye and
Tunstall 2009, regular recoding). So every multiple is a sum of exactly w entries of one table of odd multiples of
2^(c·i)·G: one lane each, no exceptions.
"""
from __future__ import annotations

import functools
from typing import Iterator

import numpy as np

from . import accumulate, points
from .accumulate import BLOCK, LANES, ROWS, TABLE, TILES
from .curve import R_ORDER, Group
from .devices import aligned, put_everywhere, put_sharded, shards

WINDOW = 12                         # 22 windows of 2048 odd multiples: 45,056 rows fill a small table
WINDOWS = -(-255 // WINDOW)
_SIDE = 1 << (WINDOW - 1)
_TILES = 2 * BLOCK                  # tiles a shard uses: two blocks


def batch() -> int:
    """Scalars of one dispatch."""
    return _TILES * LANES * shards()


def _accumulate(group: Group, table, entries: np.ndarray, careful: bool):
    """entries int32[batch, w] -> accumulator whose lanes are their sums, in order; and the flags of each dispatch."""
    d, w = shards(), entries.shape[1]
    lanes = entries.reshape(d, _TILES, LANES, w)
    dummy = 2 * (table.shape[0] - 1)
    first = np.full((d, TILES, LANES), dummy, np.int32)
    first[:, :_TILES] = lanes[..., 0]
    accumulator, bad = accumulate.loader(group)(table, put_sharded(first.reshape(-1, LANES))), []
    jobs = [(block, t) for block in range(0, _TILES, BLOCK) for t in range(1, w)]
    for at in range(0, len(jobs), ROWS // BLOCK):
        part = jobs[at:at + ROWS // BLOCK]
        fed, todo = aligned((d, ROWS, LANES), np.int32), np.zeros((d, ROWS, 3), np.int32)
        for k, (block, t) in enumerate(part):
            fed[:, k * BLOCK:(k + 1) * BLOCK] = lanes[:, block:block + BLOCK, :, t]
            todo[:, k] = block, BLOCK, k * BLOCK
        accumulator, failed = accumulate.program(group, careful)(
            table, accumulator, put_sharded(fed.reshape(-1, LANES)), put_sharded(todo.reshape(-1, 3)),
            put_sharded(np.full(d, len(part), np.int32)))
        bad.append(failed)
    return accumulator, bad


def _padded(entries: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros((n, entries.shape[1]), np.int32)
    out[:len(entries)] = entries
    return out


@functools.cache
def table(group: Group, base: tuple | None = None):
    """Odd multiples (2j + 1)·2^(WINDOW·i)·base, on every device; row i·2^(WINDOW−1) + j.

    (2j + 1) = 2^7·a + (2b + 1) with b below 64: a few hundred points on the host, their sums on the device.
    """
    base = group.projective(group.generator if base is None else base)
    high, low, entries = [], [], np.empty((WINDOWS * _SIDE, 2), np.int32)
    j = np.arange(_SIDE)
    for i in range(WINDOWS):
        double, point = group.add(base, base), base
        low_first = len(low)
        for _ in range(64):
            low.append(point)
            point = group.add(point, double)
        step = double
        for _ in range(6):
            step = group.add(step, step)
        high_first, point = len(high), step
        for _ in range(_SIDE // 64 - 1):
            high.append(point)
            point = group.add(point, step)
        block = slice(i * _SIDE, (i + 1) * _SIDE)
        entries[block, 0] = low_first + j % 64
        entries[block, 1] = np.where(j < 64, -1, high_first + j // 64 - 1)
        for _ in range(WINDOW):
            base = group.add(base, base)
    entries[:, 1] = np.where(entries[:, 1] < 0, TABLE, entries[:, 1] + len(low))
    rows = aligned((TABLE + 1, 2 * group.field.count), group.field.dtype)
    seeds = group.rows(_to_affine(group, low + high))
    rows[:len(seeds)] = seeds
    rows[TABLE] = accumulate.dummy_row(group)
    small = put_everywhere(rows)
    out = aligned(rows.shape, group.field.dtype)
    out[TABLE] = rows[TABLE]
    for start in range(0, len(entries), batch()):
        part = entries[start:start + batch()]
        accumulator, _ = _accumulate(group, small, 2 * _padded(part, batch()), True)
        out[start:start + len(part)] = _first_rows(group, accumulator, len(part))
    return put_everywhere(out)


def _to_affine(group: Group, projective: list) -> list:
    """Affine points of many projective ones, none infinity, with one inversion."""
    h, prefix, product = group.host, [], group.host.one
    for p in projective:
        prefix.append(product)
        product = h.mul(product, p[2])
    inverse, out = h.inverse(product), []
    for p, before in zip(reversed(projective), reversed(prefix)):
        z = h.mul(inverse, before)
        inverse = h.mul(inverse, p[2])
        out.append((h.mul(p[0], z), h.mul(p[1], z)))
    return out[::-1]


def _first_rows(group: Group, accumulator, n: int) -> np.ndarray:
    rows = np.asarray(accumulate.lanes_as_rows(group)(accumulator))
    return rows.reshape(shards(), TABLE, -1)[:, :_TILES * LANES].reshape(-1, rows.shape[1])[:n]


def digits(scalars: np.ndarray) -> np.ndarray:
    """Entries int32[n, WINDOWS] of canonical words uint64[n, 4], none zero."""
    even = (scalars[:, 0] & np.uint64(1)) == 0
    s = scalars.copy()
    order = [np.uint64((R_ORDER >> (64 * k)) & (2**64 - 1)) for k in range(4)]
    borrow = np.zeros(int(even.sum()), np.uint64)
    for k in range(4):          # r − s where s is even
        a = s[even, k]
        d = order[k] - a
        out = d - borrow
        borrow = ((order[k] < a) | ((d == 0) & (borrow == 1))).astype(np.uint64)
        s[even, k] = out
    out = np.empty((len(s), WINDOWS), np.int32)
    for i in range(WINDOWS):    # digits of s >> 1
        word, shift = divmod(WINDOW * i + 1, 64)
        v = s[:, word] >> np.uint64(shift)
        if shift + WINDOW > 64 and word < 3:
            v = v | (s[:, word + 1] << np.uint64(64 - shift))
        e = (v & np.uint64((1 << WINDOW) - 1)).astype(np.int32)
        if i == WINDOWS - 1:
            e += _SIDE          # the 2^(c·w − 1)
        d = 2 * e + 1 - (1 << WINDOW)
        out[:, i] = 2 * (i * _SIDE + (np.abs(d) >> 1)) | ((d < 0) ^ even)
    return out


def multiply(scalars: np.ndarray, group: Group) -> np.ndarray:
    """scalars[i]·G as uncompressed encodings uint8[n, 96 | 192]; canonical words uint64[n, 4], zero gives infinity."""
    out = np.zeros((len(scalars), group.point_bytes), np.uint8)
    for start in range(0, len(scalars), batch()):
        part = scalars[start:start + batch()]
        zero = ~part.any(axis=1)
        if zero.any():
            part = np.where(zero[:, None], np.array([1, 0, 0, 0], np.uint64), part)
        entries = _padded(digits(part), batch())
        entries[len(part):] = digits(np.array([[1, 0, 0, 0]], np.uint64))
        accumulator, bad = _accumulate(group, table(group), entries, False)
        if any(np.asarray(b).any() for b in bad):       # a partial sum met its next entry
            accumulator, _ = _accumulate(group, table(group), entries, True)
        rows = accumulate.lanes_as_rows(group)(accumulator)
        encoded = points.encode(rows, group).reshape(shards(), TABLE, -1)[:, :_TILES * LANES]
        out[start:start + len(part)] = encoded.reshape(-1, group.point_bytes)[:len(part)]
        out[start:start + len(part)][zero] = 0
        out[start:start + len(part), 0][zero] = 0x40
    return out


def stream(scalars: Iterator[np.ndarray], group: Group) -> Iterator[np.ndarray]:
    """`multiply` batch by batch."""
    for part in scalars:
        yield multiply(part, group)
