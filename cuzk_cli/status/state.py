"""The rules of jobs, partitions, workers and epochs; no locks, clocks or files.

Every assignment of a partition to a worker opens an epoch: one increasing integer, never reused in a process. A worker
holds the set of its open epochs, shows the newest, and is idle if and only if the set is empty. An end closes its own
epoch and nothing else, so that work that ends late never makes a worker look idle that has begun another. A partition's
state is that of its newest attempt; done is final, failed is never shown as done; an end for an unknown or closed epoch
is counted and changes nothing.

    pending ─► synthesizing ─► synth_done ─► gpu ─► done
                     └─► failed      ▲ retry  │└─► failed        a failed partition may be tried again
                                     └────────┘
"""
from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

PARTITION_STATES = ("pending", "synthesizing", "synth_done", "gpu", "done", "failed")
OUTCOMES = {"done": "done", "failed": "failed", "retry": "synth_done"}      # of an epoch -> state of its partitions
KEEP_FINISHED = 32          # jobs that stay visible after their end
KEEP_EPOCHS = 1000          # closed epochs that stay visible, for as long as
KEEP_EPOCHS_SECONDS = 3600.0
_NUMBERS = itertools.count(1)       # of the process: an end that outlives its tracker finds no other's epoch


class Moment(NamedTuple):
    """Now, on two clocks, in seconds: durations come from the monotonic one, the other is shown to people."""

    mono: float
    wall: float


@dataclass
class Partition:
    """One partition; `epoch` is that of its newest attempt, None before the first."""

    since: Moment
    state: str = "pending"
    epoch: int | None = None
    attempts: int = 0
    synth_started: Moment | None = None
    synth_ms: float | None = None
    synth_wait_ms: float | None = None      # from the job's start to the synthesis's
    gpu_started: Moment | None = None
    gpu_ms: float | None = None             # device work, as measured by the caller
    gpu_wait_ms: float | None = None        # from synthesised to assigned
    epoch_ms: float | None = None           # from assigned to ended, verification included
    error: str | None = None

    def enter(self, state: str, now: Moment) -> None:
        self.state, self.since = state, now


@dataclass
class Job:
    """One proof of several partitions."""

    id: str
    kind: str
    started: Moment
    progress: Moment
    since: Moment                           # of the present stage, or of the present wait
    partitions: dict[int, Partition]
    stage: str = "queued"                   # queued, synthesis, gpu, done, failed
    waiting_for: dict | None = None
    finished: Moment | None = None
    ok: bool | None = None
    error: str | None = None


@dataclass
class Epoch:
    """One assignment. `partition` None: all of `partitions` as one piece of work."""

    number: int
    job_id: str
    job: Job | None
    partition: int | None
    partitions: list[int]
    worker: int
    started: Moment
    ended: Moment | None = None
    outcome: str | None = None              # of OUTCOMES, once closed
    gpu_ms: float | None = None             # device work, as measured by the caller
    shown: dict | None = None               # as it stands in documents, with the wall clock's offset that it was told by
    shown_offset: float = 0.0


@dataclass
class Worker:
    """Idle exactly when nothing is open."""

    ordinal: int
    since: Moment                           # of the present state
    open: dict[int, Epoch] = field(default_factory=dict)

    @property
    def shown(self) -> Epoch | None:
        """The newest open epoch."""
        return self.open[max(self.open)] if self.open else None


@dataclass
class Tally:
    """Counters that only rise.

    Of jobs: started = completed + failed + replaced + running. Of epochs: opened = sum of outcomes + open.
    """

    started: int = 0
    replaced: int = 0
    completed_by_kind: dict = field(default_factory=dict)
    failed_by_kind: dict = field(default_factory=dict)
    seconds_by_kind: dict = field(default_factory=dict)     # of completed jobs
    opened: int = 0
    outcomes: dict = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    ignored_ends: int = 0                                   # of unknown or closed epochs
    ignored_events: int = 0                                 # of unknown partitions, or out of order


class State:
    """Everything known of one process. Methods answer whether they changed something that is written at once."""

    def __init__(self):
        self.jobs: dict[str, Job] = {}
        self.workers: dict[int, Worker] = {}
        self.epochs: dict[int, Epoch] = {}      # open ones
        self.closed: deque[Epoch] = deque(maxlen=KEEP_EPOCHS)   # in the order of their ends
        self.last_epoch = 0                     # the newest, 0 before the first
        self.limit = 0
        self.tally = Tally()
        self.last_error: dict | None = None

    # ---- jobs
    def job_started(self, job_id: str, kind: str, partitions: list[int], now: Moment) -> None:
        """Work still open for a job of the same id, which is replaced, keeps its worker and changes nothing here."""
        old = self.jobs.pop(job_id, None)
        if old is not None and old.finished is None:
            self.tally.replaced += 1
        self.tally.started += 1
        self.jobs[job_id] = Job(job_id, kind, now, now, now, {index: Partition(now) for index in partitions})
        finished = [name for name, job in self.jobs.items() if job.finished is not None]
        for name in finished[:-KEEP_FINISHED]:
            del self.jobs[name]

    def job_finished(self, job_id: str, ok: bool, error: str | None, code: str | None, exit: int | None,
                     now: Moment) -> None:
        """Counts once a job."""
        job = self.jobs.get(job_id)
        if job is None or job.finished is not None:
            self.tally.ignored_events += 1
            return
        if not ok:
            self.last_error = {"code": code, "exit": exit, "stage": job.stage, "job_id": job_id, "message": error,
                               "at": now}
        job.finished, job.ok, job.error, job.waiting_for, job.progress = now, ok, error, None, now
        by_kind = self.tally.completed_by_kind if ok else self.tally.failed_by_kind
        by_kind[job.kind] = by_kind.get(job.kind, 0) + 1
        if ok:
            seconds = self.tally.seconds_by_kind
            seconds[job.kind] = seconds.get(job.kind, 0.0) + max(now.mono - job.started.mono, 0.0)
        self._stage(job, now)

    def waiting(self, job_id: str, waiting_for: dict | None, now: Moment) -> None:
        job = self.jobs.get(job_id)
        if job is None or job.finished is not None:
            return
        if (job.waiting_for or {}).get("kind") != (waiting_for or {}).get("kind"):
            job.since = now
        job.waiting_for = waiting_for

    def progress(self, job_id: str, now: Moment) -> None:
        job = self.jobs.get(job_id)
        if job is not None and job.finished is None:
            job.progress = now

    def _stage(self, job: Job, now: Moment) -> None:
        states = {part.state for part in job.partitions.values()}
        if job.finished is not None:
            stage = "done" if job.ok else "failed"
        else:
            stage = "gpu" if "gpu" in states else "synthesis" if "synthesizing" in states else "queued"
        if stage != job.stage:
            job.stage, job.since = stage, now

    def _moved(self, job: Job, now: Moment) -> None:
        if job.finished is None:
            job.progress = now
        self._stage(job, now)

    def _find(self, job_id: str, index: int) -> tuple[Job | None, Partition | None]:
        job = self.jobs.get(job_id)
        part = None if job is None else job.partitions.get(index)
        if part is None:
            self.tally.ignored_events += 1
        return job, part

    # ---- synthesis
    def synthesis_start(self, job_id: str, index: int, now: Moment) -> None:
        """Of a partition that is on a device or done: out of order."""
        job, part = self._find(job_id, index)
        if part is None:
            return
        if part.state in ("gpu", "done"):
            self.tally.ignored_events += 1
            return
        part.enter("synthesizing", now)
        part.synth_started, part.synth_ms, part.error = now, None, None
        part.synth_wait_ms = _ms(job.started, now)
        self._moved(job, now)

    def synthesis_end(self, job_id: str, index: int, ok: bool, ms: float | None, now: Moment) -> None:
        """Of a partition that is not being synthesised: out of order. It may come without a start."""
        job, part = self._find(job_id, index)
        if part is None:
            return
        if part.state not in ("pending", "synthesizing"):
            self.tally.ignored_events += 1
            return
        if ms is None and part.synth_started is not None:
            ms = _ms(part.synth_started, now)
        part.enter("synth_done" if ok else "failed", now)
        part.synth_ms = ms
        self._moved(job, now)

    def resumed(self, job_id: str, index: int, now: Moment) -> None:
        """A partition whose proof an earlier run made: done, without an epoch."""
        job, part = self._find(job_id, index)
        if part is not None and part.state == "pending":
            part.enter("done", now)
            self._moved(job, now)

    # ---- epochs
    def open_epoch(self, job_id: str, partition: int | None, worker_id: int, partitions: list[int] | None,
                   now: Moment) -> int:
        """A new epoch for any job, known or not."""
        self.last_epoch = number = next(_NUMBERS)
        self.tally.opened += 1
        job = self.jobs.get(job_id)
        if partition is not None:
            partitions = [partition]
        elif partitions is None:
            partitions = list(job.partitions) if job else []
        epoch = Epoch(number, job_id, job, partition, list(partitions), worker_id, now)
        worker = self.workers.setdefault(worker_id, Worker(0, now))
        worker.open[number] = self.epochs[number] = epoch
        worker.since = now
        for part in self._parts(epoch):
            if part.state == "done":
                continue                        # done is final
            if part.state == "synth_done":
                part.gpu_wait_ms = _ms(part.since, now)
            part.enter("gpu", now)
            part.epoch, part.gpu_started, part.attempts = number, now, part.attempts + 1
            part.gpu_ms = part.epoch_ms = part.error = None
        if job is not None:
            self._moved(job, now)
        return number

    def close_epoch(self, number: int, outcome: str, gpu_ms: float | None, others: dict[int, str],
                    now: Moment) -> None:
        """Close one epoch; `others`: partitions of it with an outcome of their own. Of an unknown or closed one: counted,
        nothing else."""
        for word in (outcome, *others.values()):
            if word not in OUTCOMES:
                raise ValueError(f"outcome of epoch {number}: expected one of {', '.join(OUTCOMES)}, actual {word!r}")
        epoch = self.epochs.pop(number, None)
        if epoch is None:
            self.tally.ignored_ends += 1
            return
        self.tally.outcomes[outcome] += 1
        self._release(self.workers[epoch.worker], epoch, now)
        epoch.ended, epoch.outcome, epoch.gpu_ms = now, outcome, gpu_ms
        self.closed.append(epoch)
        for index in epoch.partitions:
            part = epoch.job.partitions.get(index) if epoch.job else None
            if part is None or not self._is_newest(part, epoch):
                continue
            part.enter(OUTCOMES[others.get(index, outcome)], now)
            part.epoch_ms = _ms(epoch.started, now)
            part.gpu_ms = part.epoch_ms if gpu_ms is None else gpu_ms
        if epoch.job is not None:
            self._moved(epoch.job, now)
        epoch.job = None                        # history keeps no job alive

    def partition_failed(self, job_id: str, index: int, error: str, now: Moment) -> None:
        """The end of its attempt: what an epoch that is still open says later of this partition changes nothing."""
        job, part = self._find(job_id, index)
        if part is None:
            return
        if part.state == "done":
            self.tally.ignored_events += 1
            return
        if part.state != "failed":
            part.enter("failed", now)
        part.error = error
        self._moved(job, now)

    def _release(self, worker: Worker, epoch: Epoch, now: Moment) -> None:
        """The guard: an end takes its own epoch from the worker, and no other."""
        del worker.open[epoch.number]
        worker.since = now

    def _is_newest(self, part: Partition, epoch: Epoch) -> bool:
        """The other guard: only its newest attempt says what becomes of a partition, and only as long as it is open."""
        return part.epoch == epoch.number and part.state == "gpu"

    @staticmethod
    def _parts(epoch: Epoch) -> list[Partition]:
        known = epoch.job.partitions if epoch.job else {}
        return [known[index] for index in epoch.partitions if index in known]


def _ms(start: Moment, end: Moment) -> float:
    return max((end.mono - start.mono) * 1e3, 0.0)
