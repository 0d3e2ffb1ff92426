import threading

import jsonschema
import pytest

from cuzk_cli.status import Tracker, schema, tracker as tracker_module
from cuzk_cli.status.state import KEEP_FINISHED

from .common import JOB, Clock, Kept, job, partition, two_workers, worker

VALIDATOR = jsonschema.Draft202012Validator(schema.DOCUMENT)


def test_every_reported_change_is_one_write_before_the_call_returns():
    writer = Kept()
    tracker = two_workers(writer)
    epochs = []
    for call, state in [
        (lambda: tracker.partition_synthesis_start("A", 0), "synthesizing"),
        (lambda: tracker.partition_synthesis_end("A", 0, True, 1.0), "synth_done"),
        (lambda: epochs.append(tracker.partition_gpu_start("A", 0, 0)), "gpu"),
        (lambda: tracker.partition_gpu_end(epochs[0], "retry", 1.0), "synth_done"),
        (lambda: epochs.append(tracker.partition_gpu_start("A", 0, 1)), "gpu"),
        (lambda: tracker.partition_gpu_end(epochs[1], "done", 1.0), "done"),
        (lambda: tracker.partition_gpu_end(epochs[1], "done", 1.0), "done"),
    ]:
        before = len(writer.documents)
        call()
        assert len(writer.documents) == before + 1
        assert partition(writer.last, "A", 0)["state"] == state
        VALIDATOR.validate(writer.last)
    assert epochs[1] > epochs[0] == writer.documents[4]["gpu_workers"][0]["epoch"]


def test_start_and_close_write_and_the_heartbeat_writes_in_between(monkeypatch):
    monkeypatch.setattr(tracker_module, "HEARTBEAT_SECONDS", 0.01)
    beaten = threading.Event()

    class Counting(Kept):
        def write(self, document):
            super().write(document)
            if len(self.documents) > 3:
                beaten.set()

    writer = Counting()
    tracker = Tracker(writer)
    assert not writer.documents
    tracker.start()
    assert writer.documents[0]["state"] == "running"
    assert beaten.wait(30)
    tracker.close()
    assert writer.last["state"] == "ended"
    tracker.close()
    tracker.partition_gpu_start("late", 0, 0)
    assert writer.last["state"] == "ended"


def test_heartbeat_is_at_least_every_five_seconds():
    assert tracker_module.HEARTBEAT_SECONDS < 5


def test_identity_of_the_process():
    document = Tracker().snapshot()
    assert document["pid"] > 0 and document["pid_start"] > 0 and document["boot_id"] and document["run_id"]
    assert document["run_id"] != Tracker().snapshot()["run_id"]


def test_upstream_keys_come_first_in_their_order():
    tracker = two_workers()
    tracker.partition_gpu_start("A", 0, 0)
    document = tracker.snapshot()
    first = lambda d, n: list(d)[:n]
    assert first(document, 7) == ["uptime_secs", "memory", "synthesis", "pipelines", "gpu_workers", "allocations",
                                  "counters"]
    assert first(document["pipelines"][0], 6) == ["job_id", "proof_kind", "started_secs_ago", "total_partitions",
                                                  "partitions_done", "partitions"]
    assert first(document["pipelines"][0]["partitions"][0], 4) == ["index", "state", "synth_ms", "gpu_ms"]
    assert first(document["gpu_workers"][0], 6) == ["worker_id", "gpu_ordinal", "state", "current_job",
                                                    "current_partition", "busy_secs"]
    assert first(document["counters"], 5) == ["total_completed", "total_failed", "completed_by_kind", "failed_by_kind",
                                              "queue_depth"]
    assert first(document["memory"], 3) == ["total_bytes", "used_bytes", "available_bytes"]


def test_jobs_are_counted_once_and_the_last_error_is_kept():
    tracker = two_workers()
    tracker.partition_gpu_start("B", 0, 0)
    tracker.job_finished("A", True)
    tracker.job_finished("A", False, "late")
    tracker.job_finished("B", False, "no memory", code="RESOURCES", exit=13)
    tracker.job_finished("unknown", True)
    document = tracker.snapshot()
    counters = document["counters"]
    assert (counters["total_completed"], counters["total_failed"], counters["jobs_running"],
            counters["jobs_started"]) == (1, 1, 0, 2)
    assert counters["completed_by_kind"] == counters["failed_by_kind"] == {"snap-2k": 1}
    assert counters["seconds_by_kind"]["snap-2k"] >= 0 and counters["ignored_events"] == 2
    error = document["last_error"]
    assert (error["code"], error["exit"], error["stage"], error["job_id"],
            error["message"]) == ("RESOURCES", 13, "gpu", "B", "no memory")
    assert job(document, "A")["ok"] is True and job(document, "B")["error"] == "no memory"
    VALIDATOR.validate(document)


def test_finished_jobs_are_forgotten_in_time_and_running_ones_are_not():
    tracker = Tracker()
    tracker.job_started("first", "snap-2k", [0])
    for i in range(KEEP_FINISHED + 9):
        tracker.job_started(f"{i}", "snap-2k", [0])
        tracker.job_finished(f"{i}", True)
    tracker.job_started("last", "snap-2k", [0])
    names = [j["job_id"] for j in tracker.snapshot()["pipelines"]]
    assert len(names) == KEEP_FINISHED + 2 and names[0] == "first" and names[-1] == "last"
    assert tracker.snapshot()["counters"]["total_completed"] == KEEP_FINISHED + 9


def test_device_work_and_waits_are_figures_of_their_own():
    clock = Clock(0.0)
    tracker = two_workers(monotonic=clock)
    moves = [(1.0, lambda: tracker.partition_synthesis_start("A", 0)),
             (2.0, lambda: tracker.partition_synthesis_end("A", 0, True, 1900.0)),
             (3.0, lambda: tracker.partition_gpu_start("A", 0, 0))]
    for seconds, call in moves:
        clock.now += seconds
        epoch = call()
    clock.now += 4.0
    assert partition(tracker.snapshot(), "A", 0)["gpu_ms"] == 4000.0
    assert worker(tracker.snapshot(), 0)["busy_secs"] == 4.0
    tracker.partition_gpu_end(epoch, "done", 2500.0)
    clock.now += 100.0
    found = partition(tracker.snapshot(), "A", 0)
    names = ("synth_wait_ms", "synth_ms", "gpu_wait_ms", "gpu_ms", "epoch_ms", "since_secs_ago")
    assert [found[n] for n in names] == [1000.0, 1900.0, 3000.0, 2500.0, 4000.0, 100.0]
    assert worker(tracker.snapshot(), 0)["idle_secs"] == 100.0


def test_what_a_job_waits_for_since_when_and_its_last_progress():
    wall, mono = Clock(1_767_225_597.0), Clock(0.0)
    tracker = two_workers(clock=wall, monotonic=mono)
    wall.now, mono.now = wall.now + 10, 10.0
    tracker.waiting("A", {"kind": "memory", "need": 5 << 30, "have": 1 << 30})
    mono.now = 15.0
    tracker.waiting("A", {"kind": "memory", "need": 5 << 30, "have": 2 << 30})
    tracker.progress("A")
    found = job(tracker.snapshot(), "A")
    assert found["waiting_for"] == {"kind": "memory", "need": 5 << 30, "have": 2 << 30}
    assert (found["since"], found["since_secs_ago"],
            found["last_progress_secs_ago"]) == ("2026-01-01T00:00:07.000Z", 5.0, 0.0)
    tracker.waiting("A", None)
    assert job(tracker.snapshot(), "A")["waiting_for"] is None
    tracker.waiting("unknown", {"kind": "x"})
    tracker.progress("unknown")


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -5.0])
def test_odd_numbers_and_values_are_shown_as_json_can(odd):
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_synthesis_end("A", 0, True, odd)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done", odd)
    tracker.waiting("A", {"kind": b"\xff", "need": odd, "have": object(), 3: None})
    tracker.partition_failed("A", 1, "x" * 10**5)
    tracker.job_started("\ud800\n", "\x00", [])
    VALIDATOR.validate(writer.last)
    assert len(partition(writer.last, "A", 1)["error"]) < 5000


def test_durations_are_not_negative_when_clocks_go_back():
    wall, mono = Clock(), Clock(1000.0)
    tracker = two_workers(clock=wall, monotonic=mono)
    epoch = tracker.partition_gpu_start("A", 0, 0)
    mono.now += 7
    assert worker(tracker.snapshot(), 0)["busy_secs"] == 7.0
    wall.now, mono.now = 5.0, 5.0
    assert worker(tracker.snapshot(), 0)["busy_secs"] == 7.0
    VALIDATOR.validate(tracker.snapshot())
    tracker.partition_gpu_end(epoch, "done")
    tracker.job_finished("A", True)
    VALIDATOR.validate(tracker.snapshot())
    assert partition(tracker.snapshot(), "A", 0)["gpu_ms"] == 7000.0


def test_snapshot_is_the_callers_own():
    tracker = two_workers()
    tracker.partition_gpu_start("A", None, 0, [0, 1])
    document = tracker.snapshot()
    document["gpu_workers"][0]["current_partitions"].clear()
    document["counters"]["completed_by_kind"]["x"] = 1
    assert tracker.snapshot()["gpu_workers"][0]["current_partitions"] == [0, 1]
    assert tracker.snapshot()["counters"]["completed_by_kind"] == {}


def test_job_ids_are_whole():
    tracker = Tracker()
    tracker.job_started(JOB * 9, "snap-32g", [0])
    assert tracker.snapshot()["pipelines"][0]["job_id"] == JOB * 9


def test_nothing_is_written_after_the_last_write():
    """A thread that still works while the process ends must not begin to replace the file."""
    writer = Kept()
    tracker = two_workers(writer)
    tracker.start()
    epoch = tracker.partition_gpu_start("A", 0, 0)
    tracker.close()
    written = len(writer.documents)
    tracker.partition_gpu_end(epoch, "done")
    assert len(writer.documents) == written and writer.documents[-1]["state"] == "ended"
    tracker.close()
    assert len(writer.documents) == written + 1 and writer.documents[-1]["epochs"]
