"""Chains of buckets: their lengths, the merging of their sums, programs that are not traced again."""
import jax
import numpy as np
import pytest

from cuzk_cli.kernels import curve, msm, schedule
from cuzk_cli.kernels.accumulate import LANES, TABLE
from cuzk_cli.kernels.curve import R_ORDER as R

from .known import GROUPS, encodings, words

SHAPES = {
    "one bucket": [1 << 21], "one bucket a window": [1 << 20] * 4, "one among many": [1 << 21] + [2] * 60_000,
    "one among few": [1 << 20] + [3] * 2000, "all alike": [32] * 65_536, "top window": [40] * 30_000 + [2000] * 64,
    "ones": [1] * TABLE, "nothing": [0] * 100, "empty": [],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_chains_fit_and_waste_little(shape):
    """Additions that lanes of a dispatched tile make are at most a few times the entries, whatever the distribution."""
    count = np.array(SHAPES[shape], np.int64)
    length = schedule.chain_length(count)
    chains = -(-count // length)
    assert chains.sum() <= TABLE
    cut = [np.minimum(length, c - length * np.arange(k)) for c, k in zip(count[:100], chains[:100])]
    sizes = np.concatenate(cut + [[]])
    assert sizes.sum() == count[:100].sum() and (sizes > 0).all()
    p = schedule.plan(np.zeros(int(count.sum()), np.int32), np.cumsum(count) - count, count, 1)
    made = sum(len(rows) for rows, _ in p.pieces) * LANES
    assert made <= 2 * count.sum() + 128 * LANES


def test_more_buckets_than_lanes_are_refused():
    with pytest.raises(OverflowError):
        schedule.chain_length(np.ones(TABLE + 1, np.int64))


def test_a_bucket_of_more_chains_than_a_small_table_holds():
    """Every lane of every shard is a chain: they are merged in several rounds."""
    group, d = GROUPS["g1"][0], msm.shards()
    points = [group.multiply(k) for k in (1, 2, 3)]
    rows = np.zeros((d, TABLE, 2 * group.field.count), group.field.dtype)
    rows[:] = np.resize(group.rows(points), (TABLE, rows.shape[2]))
    chains = np.array([0, TABLE - 10, 0, 1, 2, 7])
    plan = schedule.Plan(None, [], np.arange(TABLE), chains)
    table = msm.PointTable(group, None, 0, TABLE, None)
    msm._merge_chains(table, [plan] * d, rows)
    n, start = group.field.count, np.cumsum(chains) - chains
    for k in range(d):
        for bucket in np.flatnonzero(chains):
            lane = int(start[bucket])
            row = rows[k, lane]
            want = group.multiply(sum(i % 3 + 1 for i in range(lane, lane + int(chains[bucket]))))
            assert (group.coordinate(row[:n]), group.coordinate(row[n:])) == want


def test_nothing_is_traced_twice():
    """Other points, scalars, numbers and windows run the programs that are there."""
    group, traced = GROUPS["g1"][0], []
    encoded = encodings("g1", range(1, 201))
    scalars = words([R - 3 * k * k - 1 for k in range(200)])
    msm.msm(msm.point_table(encoded, group), scalars)
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: traced.append(event) if event.endswith("jaxpr_trace_duration") else None)
    try:
        for n in (200, 150, 7):
            msm.msm(msm.point_table(encoded[:n], group), scalars[:n])
        msm.msm(msm.point_table(encoded[:90], group), scalars[100:190], window=9)
    finally:
        jax.monitoring.clear_event_listeners()
    assert traced == []


@pytest.mark.parametrize("count", [1, 2, 64])
def test_windows_have_a_bucket_for_every_shard(monkeypatch, count):
    monkeypatch.setattr(msm, "shards", lambda: count)
    for n in (1, 10, 1000, 1 << 20):
        assert 1 << (msm.window_bits(n) - 1) >= count


def test_generator_table_has_no_infinity():
    assert msm.point_table(encodings("g1", [1, 2]), curve.g1()).infinite is None
    assert msm.point_table(encodings("g1", [1, 0]), curve.g1()).infinite.tolist() == [False, True]
