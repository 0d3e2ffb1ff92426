"""Host side of a multi-exponentiation: signed digits, radix sort into buckets, and the order in which lanes are fed."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .accumulate import BLOCK, LANES, ROWS, TABLE, TILES
from .field import R_ORDER

SPARE = TABLE - 64 * 1024       # lanes beyond one for each bucket of a group

# In additions (measured, G1; G2 is alike): a pass, 1,300 and half a tile of idle lanes; a round of merges, 39,000; a
# chain to merge, about one.
_PASS, _ROUND, _MERGED = 1_300 + LANES // 2, 39_000, 1

u64 = np.uint64


class Recoded(NamedTuple):
    """Scalars ready for digit extraction: s or r − s, whichever is small, plus 2^(c−1) in every window but the top
    one."""

    words: list             # four uint64[n]
    negated: np.ndarray     # bool[n]
    window: int             # c
    windows: int


def recode(scalars: np.ndarray, window: int) -> Recoded:
    """scalars: canonical words uint64[n, 4]."""
    windows = -(-255 // window)
    offset = sum(1 << (window - 1 + window * i) for i in range(windows - 1))
    s = np.ascontiguousarray(scalars.T)
    negated = s[3] > u64((R_ORDER // 2) >> 192)
    flip, words, over = np.where(negated, u64(2**64 - 1), u64(0)), [], None
    for j in range(4):
        plus, minus = (u64((v >> (64 * j)) & (2**64 - 1)) for v in (offset, R_ORDER + offset + 1))
        x = s[j] ^ flip
        y = x + np.where(negated, minus, plus)
        carry = y < x
        if over is not None:
            x = y + over
            carry |= x < y
            y = x
        words.append(y)
        over = carry.astype(u64)
    return Recoded(words, negated, window, windows)


class Sorted(NamedTuple):
    """One window: entries by bucket, buckets of shard d first those congruent d."""

    entries: np.ndarray     # int32[n], 2·row + sign
    start: np.ndarray       # int64[buckets]
    count: np.ndarray       # int64[buckets]


def sort_window(recoded: Recoded, window: int, infinite: np.ndarray | None, shards: int) -> Sorted:
    """Bucket b = |digit| − 1 of one window has key (b mod shards)·(buckets/shards) + b div shards."""
    c = recoded.window
    j, shift = divmod(c * window, 64)
    digits = recoded.words[j] >> u64(shift)
    if shift + c > 64 and j < 3:
        digits = digits | (recoded.words[j + 1] << u64(64 - shift))
    digits = (digits & u64((1 << c) - 1)).astype(np.int32)
    if window < recoded.windows - 1:
        digits -= 1 << (c - 1)
    if infinite is not None:
        digits[infinite] = 0
    buckets = 1 << (c - 1)
    bucket = np.abs(digits) - 1
    key = ((bucket % shards) * (buckets // shards) + bucket // shards).astype(np.uint16)
    entries = np.arange(0, 2 * len(digits), 2, dtype=np.int32)
    entries |= (digits < 0) ^ recoded.negated
    zero = digits == 0
    if zero.any():
        key, entries = key[~zero], entries[~zero]
    order = np.argsort(key, kind="stable")              # a radix sort
    count = np.bincount(key, minlength=buckets)
    return Sorted(entries[order], np.cumsum(count) - count, count)


class Plan(NamedTuple):
    """What one shard does with one group of buckets."""

    first: np.ndarray       # int32[TILES, LANES], entry that starts each lane
    pieces: list            # [(entries int32[rows, LANES], jobs [(first tile, tiles, first row)])], rows <= ROWS
    lane: np.ndarray        # int64[chains]: the lane of each chain, -1 for an empty one
    chains: np.ndarray      # int64[buckets]: number of chains of each bucket


def chain_length(count: np.ndarray) -> int:
    """Entries of the longest chain into which buckets of `count` entries are cut, a power of two.

    Longer chains mean more passes over few lanes, shorter ones more partial sums to merge afterwards. Least cost, among
    the lengths whose chains fit the lanes of an accumulator. Raises OverflowError for more buckets than that.
    """
    largest, best = int(count.max(initial=0)), None
    if np.count_nonzero(count) > TABLE:
        raise OverflowError(f"{np.count_nonzero(count)} buckets for {TABLE} lanes")
    for length in (1 << k for k in range(4, 40)):
        chains = -(-count // length)
        cost = min(length, largest) * _PASS
        if largest > length:
            cost += _ROUND + _MERGED * int(chains[chains > 1].sum())
        if chains.sum() <= TABLE and (best is None or cost < best[0]):
            best = cost, length
        if length >= largest:
            return best[1]
    raise AssertionError("more entries than memory holds")


def plan(entries: np.ndarray, start: np.ndarray, count: np.ndarray, dummy: int) -> Plan:
    """Chains, longest first, as lanes. At most TABLE buckets that are not empty; dummy: the table's last row."""
    longest = chain_length(count)
    chains = -(-count // longest)
    if count.max(initial=0) > longest:
        bucket = np.repeat(np.arange(len(count)), chains)
        offset = longest * (np.arange(len(bucket)) - np.repeat(np.cumsum(chains) - chains, chains))
        start, count = start[bucket] + offset, np.minimum(longest, count[bucket] - offset)
    else:
        start, count = start[chains > 0], count[chains > 0]
    order = np.argsort((longest - count).astype(np.uint16), kind="stable")
    used = len(order)
    lane = np.empty(used, np.int64)
    lane[order] = np.arange(used)
    start, count = start[order], count[order]
    first = np.full((TILES, LANES), 2 * dummy, np.int32)
    first.reshape(-1)[:used] = entries[start]
    pieces, jobs, parts, rows = [], [], [], 0
    for base in range(0, used, BLOCK * LANES):
        sizes = count[base:base + BLOCK * LANES]
        for t in range(1, int(sizes[0])):
            lanes = int(np.searchsorted(-sizes, -t))            # with more than t entries
            tiles = -(-lanes // LANES)
            if rows + tiles > ROWS:
                pieces.append((_fill(entries, parts, rows, dummy), jobs))
                jobs, parts, rows = [], [], 0
            jobs.append((base // LANES, tiles, rows))
            parts.append((rows, start[base:base + lanes] + t))
            rows += tiles
    if jobs:
        pieces.append((_fill(entries, parts, rows, dummy), jobs))
    return Plan(first, pieces, lane, chains)


def _fill(entries: np.ndarray, parts: list, rows: int, dummy: int) -> np.ndarray:
    out = np.empty((rows, LANES), np.int32)
    flat = out.reshape(-1)
    for k, (row, where) in enumerate(parts):
        begin = row * LANES
        end = parts[k + 1][0] * LANES if k + 1 < len(parts) else rows * LANES
        np.take(entries, where, out=flat[begin:begin + len(where)], mode="clip")
        flat[begin + len(where):end] = 2 * dummy
    return out
