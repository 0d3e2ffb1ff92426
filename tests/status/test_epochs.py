"""The race that the epochs exist for, and the rules of design by name."""
import pytest

from cuzk_cli.status import Tracker, read_status
from cuzk_cli.status.state import State

from .common import Kept, job, partition, quick, shown, two_workers, worker


def seed_timeline(tracker, read):
    """Start A/P0 on W0, start B/P1 on W0, end A/P0, read."""
    first = tracker.partition_gpu_start("A", 0, 0)
    tracker.partition_gpu_start("B", 1, 0)
    tracker.partition_gpu_end(first, "done")
    document = read()
    assert shown(document, 0) == ("proving", "B", 1)
    assert partition(document, "A", 0)["state"] == "done"
    assert partition(document, "B", 1)["state"] == "gpu"


def mirrored_timeline(tracker, read):
    """The same starts, the end of B/P1 first."""
    tracker.partition_gpu_start("A", 0, 0)
    second = tracker.partition_gpu_start("B", 1, 0)
    tracker.partition_gpu_end(second, "done")
    document = read()
    assert shown(document, 0) == ("proving", "A", 0)
    assert partition(document, "A", 0)["state"] == "gpu"
    assert partition(document, "B", 1)["state"] == "done"


TIMELINES = [seed_timeline, mirrored_timeline]


@pytest.mark.parametrize("timeline", TIMELINES)
def test_worker_that_began_another_partition_is_shown_proving_it(timeline, tmp_path):
    timeline(two_workers(quick(tmp_path)), lambda: read_status(tmp_path))


@pytest.mark.parametrize("timeline", TIMELINES)
def test_timeline_fails_without_the_guard(timeline, tmp_path, monkeypatch):
    """The mutation: an end clears the worker without asking whose work it was, as the first engine did."""
    def clear(self, worker, epoch, now):
        worker.open.clear()
        worker.since = now

    monkeypatch.setattr(State, "_release", clear)
    with pytest.raises(AssertionError):
        timeline(two_workers(quick(tmp_path)), lambda: read_status(tmp_path))


def late_end_of_an_older_attempt(tracker, read, outcome="done"):
    older = tracker.partition_gpu_start("A", 0, 0)
    newer = tracker.partition_gpu_start("A", 0, 1)
    tracker.partition_gpu_end(older, outcome)
    assert partition(read(), "A", 0)["state"] == "gpu"
    assert shown(read(), 1) == ("proving", "A", 0) and shown(read(), 0)[0] == "idle"
    tracker.partition_gpu_end(newer, "failed")
    assert partition(read(), "A", 0)["state"] == "failed"


@pytest.mark.parametrize("outcome", ["done", "failed", "retry"])
def test_partition_follows_its_newest_attempt(outcome):
    writer = Kept()
    late_end_of_an_older_attempt(two_workers(writer), lambda: writer.last, outcome)


def test_newest_attempt_fails_without_the_guard(monkeypatch):
    monkeypatch.setattr(State, "_is_newest", lambda self, part, epoch: True)
    writer = Kept()
    with pytest.raises(AssertionError):
        late_end_of_an_older_attempt(two_workers(writer), lambda: writer.last)


def test_failed_is_never_shown_as_done():
    writer = Kept()
    tracker = two_workers(writer)
    epoch = tracker.partition_gpu_start("A", 0, 0)
    tracker.partition_failed("A", 0, "bad input")
    tracker.partition_gpu_end(epoch, "done")
    found = partition(writer.last, "A", 0)
    assert (found["state"], found["error"]) == ("failed", "bad input") and worker(writer.last, 0)["state"] == "idle"


def test_done_is_final():
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done", 5.0)
    again = tracker.partition_gpu_start("A", 0, 0)
    assert shown(writer.last, 0) == ("proving", "A", 0)     # the worker does work on it
    for event in (lambda: tracker.partition_gpu_end(again, "failed"), lambda: tracker.partition_failed("A", 0, "x"),
                  lambda: tracker.partition_synthesis_start("A", 0),
                  lambda: tracker.partition_synthesis_end("A", 0, False, 1.0)):
        event()
        found = partition(writer.last, "A", 0)
        assert (found["state"], found["gpu_ms"], found["error"]) == ("done", 5.0, None)
    assert worker(writer.last, 0)["state"] == "idle"


def test_retry_goes_back_to_synthesised_and_may_be_done():
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_synthesis_start("A", 0)
    tracker.partition_synthesis_end("A", 0, True, 7.0)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "retry", 1.0)
    assert partition(writer.last, "A", 0)["state"] == "synth_done"
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 1), "done", 2.0)
    found = partition(writer.last, "A", 0)
    assert (found["state"], found["attempts"], found["synth_ms"], found["gpu_ms"]) == ("done", 2, 7.0, 2.0)


@pytest.mark.parametrize("epoch", [10**9, 0, -1, None, "7"])
def test_end_of_an_unknown_epoch_is_counted_and_changes_nothing(epoch):
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_gpu_start("A", 0, 0)
    before = writer.last
    tracker.partition_gpu_end(epoch, "done")
    assert writer.last["counters"]["ignored_ends"] == before["counters"]["ignored_ends"] + 1
    assert shown(writer.last, 0) == ("proving", "A", 0) and partition(writer.last, "A", 0)["state"] == "gpu"


def test_second_end_changes_nothing():
    writer = Kept()
    tracker = two_workers(writer)
    epoch = tracker.partition_gpu_start("A", 0, 0)
    tracker.partition_gpu_end(epoch, "done")
    tracker.partition_gpu_end(epoch, "failed")
    assert partition(writer.last, "A", 0)["state"] == "done" and writer.last["counters"]["ignored_ends"] == 1


def test_end_after_a_restart_finds_no_epoch_of_the_new_run():
    old = two_workers(Kept()).partition_gpu_start("A", 0, 0)
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_gpu_start("B", 0, 0)
    tracker.partition_gpu_end(old, "failed")
    assert shown(writer.last, 0) == ("proving", "B", 0) and writer.last["counters"]["ignored_ends"] == 1


@pytest.mark.parametrize("partitions", [None, [0, 1]])
def test_monolithic_work_is_one_epoch(partitions):
    writer = Kept()
    tracker = two_workers(writer)
    epoch = tracker.partition_gpu_start("A", None, 0, partitions)
    found = worker(writer.last, 0)
    assert shown(writer.last, 0) == ("proving", "A", None)
    assert (found["current_partitions"], found["epoch"]) == ([0, 1], epoch)
    assert [p["state"] for p in job(writer.last, "A")["partitions"]] == ["gpu", "gpu"]
    tracker.partition_gpu_end(epoch, "done")
    assert [p["state"] for p in job(writer.last, "A")["partitions"]] == ["done", "done"]
    assert worker(writer.last, 0)["state"] == "idle"


def test_start_needs_neither_job_nor_partition_nor_worker():
    writer = Kept()
    tracker = Tracker(writer)
    epochs = [tracker.partition_gpu_start("nobody", 3, 5), tracker.partition_gpu_start("nobody", None, 5)]
    assert epochs[1] > epochs[0] and shown(writer.last, 5) == ("proving", "nobody", None)
    for epoch in epochs:
        tracker.partition_gpu_end(epoch, "failed")
    assert worker(writer.last, 5)["state"] == "idle" and writer.last["pipelines"] == []


def test_job_started_again_is_not_touched_by_the_work_of_the_one_before():
    writer = Kept()
    tracker = two_workers(writer)
    old = tracker.partition_gpu_start("A", 0, 0)
    tracker.job_started("A", "snap-2k", [0, 1])
    tracker.partition_gpu_end(old, "done")
    assert partition(writer.last, "A", 0)["state"] == "pending" and worker(writer.last, 0)["state"] == "idle"
    assert writer.last["counters"]["jobs_replaced"] == 1


def test_other_outcomes_are_refused_and_leave_the_epoch_open():
    writer = Kept()
    tracker = two_workers(writer)
    epoch = tracker.partition_gpu_start("A", 0, 0)
    with pytest.raises(ValueError, match="cancelled"):
        tracker.partition_gpu_end(epoch, "cancelled")
    assert tracker.snapshot()["gpu_workers"][0]["state"] == "proving"


@pytest.mark.parametrize("state", ["gpu", "synth_done", "failed"])
def test_synthesis_that_is_reported_late_does_not_take_a_partition_back(state):
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_synthesis_start("A", 0)
    if state == "failed":
        tracker.partition_failed("A", 0, "worker killed")
    else:
        tracker.partition_synthesis_end("A", 0, True, 1.0)
    if state == "gpu":
        tracker.partition_gpu_start("A", 0, 0)
        tracker.partition_synthesis_start("A", 0)
    tracker.partition_synthesis_end("A", 0, state == "failed", 2.0)
    assert partition(writer.last, "A", 0)["state"] == state
    assert writer.last["counters"]["ignored_events"] == (2 if state == "gpu" else 1)
