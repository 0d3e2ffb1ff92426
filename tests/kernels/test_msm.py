"""Multi-scalar multiplication against known logarithms and arkworks: edge cases of points and of scalars."""
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_cli.kernels import fixed_base, msm, points, schedule
from cuzk_cli.kernels.curve import P
from cuzk_cli.kernels.curve import R_ORDER as R

from .known import GROUPS, encode, encodings, scalar, words

N = 192
_rng = random.Random(7)
RANDOM = [_rng.randrange(R) for _ in range(N)]
POINTS = {
    "random": RANDOM,
    "equal": [RANDOM[0]] * N,
    "P, -P": [RANDOM[i // 2] if i % 2 else R - RANDOM[i // 2] for i in range(N)],
    "infinity": [0 if i % 3 == 0 else k for i, k in enumerate(RANDOM)],
}
SCALARS = {
    "random": [_rng.randrange(R) for _ in range(N)],
    "all 0": [0] * N, "all 1": [1] * N, "all r-1": [R - 1] * N, "all equal": [RANDOM[5]] * N,
    "extremes": [[0, 1, R - 1, R // 2, R // 2 + 1, 1 << 254, 2][i % 7] for i in range(N)],
    "distinct small": list(range(N)),
}


def expected(group, logarithms, scalars):
    return group.multiply(sum(a * b for a, b in zip(logarithms, scalars)) % R)


@pytest.fixture(scope="module")
def tables():
    made = {}

    def table(name, case):
        if (name, case) not in made:
            made[name, case] = msm.point_table(encodings(name, POINTS[case]), GROUPS[name][0])
        return made[name, case]
    return table


@pytest.mark.parametrize("scalars", SCALARS)
@pytest.mark.parametrize("case", POINTS)
def test_g1(tables, case, scalars):
    got = msm.msm(tables("g1", case), words(SCALARS[scalars]))
    assert got == expected(GROUPS["g1"][0], POINTS[case], SCALARS[scalars])


@pytest.mark.parametrize("case, scalars", [("random", "random"), ("equal", "all equal"), ("P, -P", "all equal"),
                                           ("infinity", "extremes"), ("equal", "all r-1"), ("random", "all 0")])
def test_g2(tables, case, scalars):
    got = msm.msm(tables("g2", case), words(SCALARS[scalars]))
    assert got == expected(GROUPS["g2"][0], POINTS[case], SCALARS[scalars])


@pytest.mark.parametrize("window", [4, 7, 12, 13, 16, 17])
def test_every_window_gives_the_same(tables, window):
    got = msm.msm(tables("g1", "random"), words(SCALARS["random"]), window)
    assert got == expected(GROUPS["g1"][0], POINTS["random"], SCALARS["random"])


@pytest.mark.parametrize("name", GROUPS)
def test_sum_of_ones_in_batches(name):
    group, _ = GROUPS[name]
    encoded, summation = encodings(name, POINTS["P, -P"][:-1]), msm.Summation(group)
    assert summation.total() is None
    for _ in range(3):
        summation.add(encoded)
    assert summation.total() == group.multiply(3 * sum(POINTS["P, -P"][:-1]) % R)


def test_lanes_of_a_sum():
    """`dealt` says which lane a point goes to, whatever the size of its batch."""
    summation, expected = msm.Summation(GROUPS["g1"][0]), {}
    assert len(summation.lanes()) == 0
    values = [RANDOM[i] for i in range(40)]
    for start, count in ((0, 20), (20, 19), (39, 1)):
        summation.add(encodings("g1", values[start:start + count]))
        for lane, value in zip(summation.dealt(count), values[start:start + count]):
            expected[int(lane)] = expected.get(int(lane), 0) + value
    lanes = summation.lanes()
    for lane, value in expected.items():
        assert np.array_equal(lanes[lane], encodings("g1", [value % R])[0]), lane
    infinity = lanes[np.setdiff1d(np.arange(len(lanes)), list(expected))]
    assert (infinity[:, 0] == 0x40).all() and not infinity[:, 1:].any()


def test_sparse_reads_only_what_it_needs():
    group, read = GROUPS["g1"][0], []
    encoded = encodings("g1", RANDOM).copy()
    rest = np.arange(0, N, 5)
    ones = np.setdiff1d(np.arange(N), rest)[::2]
    unused = np.setdiff1d(np.arange(N), np.concatenate([ones, rest]))
    encoded[unused] = 0xFF          # no points: they must not be looked at
    values = [RANDOM[-i - 1] for i in range(len(rest))]

    def reader(start, count):
        read.append((start, count))
        return encoded[start:start + count]

    got = msm.sparse(reader, N, ones, rest, words(values), group)
    assert got == group.multiply((sum(RANDOM[i] for i in ones) + sum(RANDOM[i] * v for i, v in zip(rest, values))) % R)
    assert read == [(0, N)]
    encoded[rest[3], 95] ^= 1
    with pytest.raises(points.BadPoint) as raised:
        msm.sparse(reader, N, ones, rest, words(values), group)
    assert raised.value.index == rest[3]


@pytest.mark.parametrize("frugal, largest", [(False, 1 << 21), (True, 1 << 18)])
def test_dense_in_chunks(monkeypatch, frugal, largest):
    """Every point once, with its own scalar, and never more of them than a table may hold."""
    group, n, read, sizes = GROUPS["g1"][0], (1 << 21) + 5, [], []

    def table(reader, group, count):
        sizes.append(count)
        return reader(0, count)

    monkeypatch.setattr(msm, "point_table", table)
    monkeypatch.setattr(msm, "msm", lambda table, scalars: read.append((table, scalars[[0, -1], 0])))
    monkeypatch.setattr(group.__class__, "projective", lambda self, point: self.identity)
    scalars = np.zeros((n, 4), np.uint64)
    scalars[:, 0] = np.arange(n)
    assert msm.dense(lambda start, count: (start, count), scalars, group, frugal) is None
    assert sum(sizes) == n and max(sizes) == largest
    for (start, count), ends in read:
        assert list(ends) == [start, start + count - 1]


def test_sparse_of_nothing():
    none, group = np.zeros(0, np.int64), GROUPS["g1"][0]
    read = lambda start, count: np.zeros((count, 96), np.uint8)
    assert msm.sparse(read, 10, none, none, np.zeros((0, 4), np.uint64), group) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, R - 1), st.sampled_from([0, 1, R - 1, R // 2, R // 2 + 1])),
                min_size=1, max_size=20),
       st.integers(4, 17))
def test_signed_digits_spell_the_scalar(values, window):
    recoded = schedule.recode(words(values), window)
    totals = [0] * len(values)
    for w in range(recoded.windows):
        for shards in (1, 2):
            found = schedule.sort_window(recoded, w, None, shards)
            half = (1 << (window - 1)) // shards
            for key in np.flatnonzero(found.count):
                digit = (key % half) * shards + key // half + 1
                assert 0 < digit <= 1 << (window - 1)
                if shards == 1:
                    for e in found.entries[found.start[key]:found.start[key] + found.count[key]]:
                        totals[int(e) >> 1] += (-int(digit) if e & 1 else int(digit)) << (window * w)
    assert [t % R for t in totals] == values


def test_chains_hold_every_entry_once():
    rng = np.random.default_rng(3)
    count = np.concatenate([[50_000, 0, 1, 33], rng.integers(0, 40, 3000)])
    entries = np.arange(0, 2 * int(count.sum()), 2, dtype=np.int32)
    plan = schedule.plan(entries, np.cumsum(count) - count, count, 1 << 20)
    dummy = 2 << 20
    seen = [plan.first.reshape(-1)]
    for rows, jobs in plan.pieces:
        assert len(rows) <= schedule.ROWS and all(0 < tiles <= schedule.BLOCK for _, tiles, _ in jobs)
        seen.append(rows.reshape(-1))
    seen = np.concatenate(seen)
    assert (np.sort(seen[seen != dummy]) == entries).all()
    assert plan.chains.sum() == len(plan.lane) <= schedule.TABLE and (plan.chains > 0).sum() == (count > 0).sum()


def _known_points(log_n: int, name: str):
    """2^log_n different points k·G as encodings, and the k."""
    rng = np.random.default_rng(log_n)
    k = rng.integers(0, 2**64, (1 << log_n, 4), dtype=np.uint64)
    k[:, 3] >>= np.uint64(2)
    return fixed_base.multiply(k, GROUPS[name][0]), k


def _ints(w):
    return [int.from_bytes(row.tobytes(), "little") for row in w]


@pytest.mark.slow
@pytest.mark.parametrize("name, log_n", [("g1", 17), ("g1", 20), ("g2", 16)])
def test_large(name, log_n):
    """Dense random scalars, and all of them equal; by logarithms, and at 2^16 and 2^17 by arkworks on the points
    themselves."""
    group, kind = GROUPS[name]
    encoded, k = _known_points(log_n, name)
    table = msm.point_table(encoded, group)
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2**64, (1 << log_n, 4), dtype=np.uint64)
    s[:, 3] >>= np.uint64(2)
    logarithms, values = _ints(k), _ints(s)
    got = msm.msm(table, s)
    assert got == expected(group, logarithms, values)
    if log_n <= 17:
        a = [kind() * scalar(v) for v in logarithms[:2000]]
        part = msm.msm(msm.point_table(encoded[:2000], group), s[:2000])
        b = kind.multiexp_unchecked(a, [scalar(v) for v in values[:2000]])
        flat = lambda v: v[::-1] if group.extension else (v,)
        assert b"".join(c.to_bytes(48, "big") for v in part for c in flat(v)) == encode(group, b).tobytes()
    equal = np.repeat(s[:1], len(s), axis=0)
    assert msm.msm(table, equal) == group.multiply(sum(logarithms) * values[0] % R)


@pytest.mark.slow
def test_the_fast_program_notices_exceptions():
    """2^18 points, half of them equal and opposite: the fast program reports it and the careful one answers."""
    group = GROUPS["g1"][0]
    encoded, k = _known_points(17, "g1")
    negated = encoded.copy()
    minus = lambda row: (P - int.from_bytes(row.tobytes(), "big")).to_bytes(48, "big")
    negated[:, 48:] = np.frombuffer(b"".join(minus(row) for row in encoded[:, 48:]), np.uint8).reshape(-1, 48)
    table = msm.point_table(np.concatenate([encoded, negated]), group)
    s = np.random.default_rng(2).integers(0, 2**64, (1 << 17, 4), dtype=np.uint64)
    s[:, 3] >>= np.uint64(2)
    assert msm.msm(table, np.concatenate([s, s])) is None
