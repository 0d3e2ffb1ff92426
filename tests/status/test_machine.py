"""Random interleavings of everything the engine can report, against a model that keeps the log and works from it."""
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (RuleBasedStateMachine, initialize, invariant, precondition, rule,
                                 run_state_machine_as_test)

from cuzk_cli.status import Tracker, read_status, schema

from .common import Clock, Kept, quick

JOBS, INDICES, WORKERS = ("A", "B", "C"), (0, 1, 2), (0, 1)
jobs, indices, workers = (st.sampled_from(values) for values in (JOBS, INDICES, WORKERS))
outcomes = st.sampled_from(["done", "failed", "retry"])


class Model:
    """What one run of the process should show: a list of attempts for each partition of each job, in order."""

    def __init__(self):
        self.jobs = {}              # name -> {index: [state, newest attempt]}
        self.attempts = {}          # epoch -> [worker, partitions (shared with self.jobs), open, job name, partition]
        self.ignored = self.completed = self.failed = self.started = self.replaced = 0
        self.finished = set()

    def open_of(self, worker):
        return [epoch for epoch, (w, _, is_open, *_) in self.attempts.items() if w == worker and is_open]


class Reports(RuleBasedStateMachine):
    """`real`: through files, read back by the reader; else what the tracker hands to its writer."""

    real = False
    steps = 0

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) if self.real else None
        self.every_epoch = []

    def teardown(self):
        if self.real:
            shutil.rmtree(self.folder)

    @initialize()
    def begin(self):
        self.wall, self.mono = Clock(), Clock(0.0)
        self.restart()

    def restart(self):
        if self.real:
            for path in self.folder.iterdir():
                path.unlink()
        self.writer = quick(self.folder) if self.real else Kept()
        self.tracker = Tracker(self.writer, clock=self.wall, monotonic=self.mono)
        self.tracker.add_workers([(w, 0) for w in WORKERS])
        self.tracker._write()
        self.model = Model()

    # ---- what can happen
    @rule()
    def process_restarts(self):
        if Reports.steps % 7 == 0:      # rarely
            self.restart()

    @rule(seconds=st.floats(-100, 100), both=st.booleans())
    def clock_moves(self, seconds, both):
        self.wall.now += seconds
        if both:
            self.mono.now += seconds

    @rule(job=jobs)
    def job_starts(self, job):
        m = self.model
        m.replaced += job in m.jobs and job not in m.finished
        m.started += 1
        m.finished.discard(job)
        m.jobs[job] = {index: ["pending", None] for index in INDICES}
        self.tracker.job_started(job, "snap-2k", list(INDICES))

    @rule(job=jobs, ok=st.booleans())
    def job_finishes(self, job, ok):
        m = self.model
        if job in m.jobs and job not in m.finished:
            m.finished.add(job)
            m.completed, m.failed = m.completed + ok, m.failed + (not ok)
        self.tracker.job_finished(job, ok, None if ok else "x")

    @rule(job=jobs, index=indices)
    def synthesis_starts(self, job, index):
        part = self.model.jobs.get(job, {}).get(index)
        if part and part[0] not in ("gpu", "done"):
            part[0] = "synthesizing"
        self.tracker.partition_synthesis_start(job, index)

    @rule(job=jobs, index=indices, ok=st.booleans(), ms=st.none() | st.floats(allow_nan=True))
    def synthesis_ends(self, job, index, ok, ms):
        part = self.model.jobs.get(job, {}).get(index)
        if part and part[0] in ("pending", "synthesizing"):
            part[0] = "synth_done" if ok else "failed"
        self.tracker.partition_synthesis_end(job, index, ok, ms)

    @rule(job=jobs, partition=st.none() | indices, worker=workers, listed=st.none() | st.lists(indices, unique=True))
    def gpu_starts(self, job, partition, worker, listed):
        known = self.model.jobs.get(job, {})
        chosen = [partition] if partition is not None else list(known) if listed is None else listed
        epoch = self.tracker.partition_gpu_start(job, partition, worker, listed)
        assert epoch not in self.every_epoch and epoch > max(self.every_epoch, default=0)
        self.every_epoch.append(epoch)
        parts = [known[index] for index in chosen if index in known]
        self.model.attempts[epoch] = [worker, parts, True, job, partition]
        for part in parts:
            if part[0] != "done":
                part[0], part[1] = "gpu", epoch

    @precondition(lambda self: self.every_epoch)
    @rule(back=st.integers(0, 6), outcome=outcomes, ms=st.none() | st.floats(0, 1e6))
    def gpu_ends(self, back, outcome, ms):
        """Late, twice, in any order, after a restart."""
        epoch = self.every_epoch[-1 - back % len(self.every_epoch)]
        self.end(epoch, outcome, ms)

    @precondition(lambda self: self.every_epoch)
    @rule(at=st.integers(0, 10**6), outcome=outcomes)
    def old_gpu_ends(self, at, outcome):
        self.end(self.every_epoch[at % len(self.every_epoch)], outcome, 1.0)

    @rule(epoch=st.integers(-3, 0) | st.integers(10**9, 10**10), outcome=outcomes)
    def unknown_gpu_ends(self, epoch, outcome):
        self.end(epoch, outcome, 1.0)

    def end(self, epoch, outcome, ms):
        attempt = self.model.attempts.get(epoch)
        if attempt is None or not attempt[2]:
            self.model.ignored += 1
        else:
            attempt[2] = False
            for part in attempt[1]:
                if part[1] == epoch and part[0] == "gpu":
                    part[0] = {"retry": "synth_done"}.get(outcome, outcome)
        self.tracker.partition_gpu_end(epoch, outcome, ms)

    @rule(job=jobs, index=indices)
    def partition_fails(self, job, index):
        part = self.model.jobs.get(job, {}).get(index)
        if part and part[0] != "done":
            part[0] = "failed"
        self.tracker.partition_failed(job, index, "x")

    # ---- what must be seen
    @invariant()
    def shown_as_it_is(self):
        Reports.steps += 1
        if not hasattr(self, "model"):
            return
        document = read_status(self.folder) if self.real else self.writer.last
        wrong = schema.mismatch(document, schema.ANSWER if self.real else schema.DOCUMENT)
        assert wrong is None, wrong         # no duration is negative, too
        m = self.model
        for worker in document["gpu_workers"]:
            still_open = m.open_of(worker["worker_id"])
            assert worker["open_epochs"] == still_open
            if still_open:
                _, _, _, job, partition = m.attempts[still_open[-1]]
                assert (worker["state"], worker["epoch"], worker["current_job"], worker["current_partition"]) == (
                    "proving", still_open[-1], job, partition)
                assert worker["busy_secs"] is not None
            else:
                assert (worker["state"], worker["epoch"], worker["current_job"],
                        worker["busy_secs"]) == ("idle", None, None, None)
        assert {j["job_id"]: {p["index"]: p["state"] for p in j["partitions"]} for j in document["pipelines"]} == {
            name: {index: part[0] for index, part in parts.items()} for name, parts in m.jobs.items()}
        for j in document["pipelines"]:
            assert j["partitions_done"] == sum(p["state"] == "done" for p in j["partitions"]) <= j["total_partitions"]
        self.counters_add_up(document["counters"])

    def counters_add_up(self, c):
        m = self.model
        assert (c["total_completed"], c["total_failed"], c["jobs_started"], c["jobs_replaced"], c["ignored_ends"]) == (
            m.completed, m.failed, m.started, m.replaced, m.ignored)
        assert c["total_completed"] == sum(c["completed_by_kind"].values())
        assert c["total_failed"] == sum(c["failed_by_kind"].values())
        assert c["jobs_started"] == c["total_completed"] + c["total_failed"] + c["jobs_replaced"] + c["jobs_running"]
        assert c["epochs_opened"] == len(m.attempts)
        assert c["epochs_open"] == sum(is_open for _, _, is_open, *_ in m.attempts.values())
        assert c["epochs_opened"] == c["epochs_open"] + c["epochs_done"] + c["epochs_failed"] + c["epochs_retry"]


class ReportsThroughFiles(Reports):
    real = True


def run(machine, examples, steps):
    Reports.steps = 0
    run_state_machine_as_test(machine, settings=settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, database=None,
        suppress_health_check=list(HealthCheck)))
    return Reports.steps


def test_random_interleavings():
    assert run(Reports, 260, 100) >= 20_000


def test_random_interleavings_through_files():
    run(ReportsThroughFiles, 300, 12)
