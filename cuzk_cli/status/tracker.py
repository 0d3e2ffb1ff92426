"""The state of jobs, partitions and workers, by epochs.

Every assignment of a partition to a worker opens a new epoch: one increasing integer, never reused in a process. A worker holds
the set of its open epochs, shows the newest, and is idle if and only if the set is empty. An end closes its own epoch and nothing
else, so that work that ends late never makes a worker look idle that has begun another. A partition's state is that of its newest
attempt; done is final, failed is never shown as done; an end for an unknown or closed epoch is counted and changes nothing.
"""
from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field

from .. import __version__
from . import process

SCHEMA_VERSION = 1
HEARTBEAT_SECONDS = 3.0
KEEP_FINISHED = 200         # jobs
OUTCOMES = ("done", "failed", "retry")


@dataclass
class _Partition:
    state: str = "pending"
    epoch: int = 0                      # of the newest attempt
    since: float = 0.0
    synth_started: float | None = None
    synth_ms: float | None = None
    gpu_started: float | None = None
    gpu_ms: float | None = None
    error: str | None = None


@dataclass
class _Job:
    kind: str
    started: float                      # monotonic
    started_at: float                   # wall clock
    partitions: dict
    progress_at: float
    finished: float | None = None
    ok: bool | None = None
    error: str | None = None
    waiting_for: dict | None = None


@dataclass
class _Epoch:
    number: int
    job: str
    partition: int | None               # None: all of `partitions` as one piece of work
    partitions: list
    worker: int
    started: float


@dataclass
class _Worker:
    ordinal: int
    open: dict = field(default_factory=dict)        # epoch -> _Epoch
    idle_since: float = 0.0


class Tracker:
    """Thread-safe. `writer.write(document)` is called before a call that opens or closes an epoch returns, at every other change
    of a partition's state, at start and end, and by a heartbeat in between."""

    def __init__(self, writer=None, clock=time.time, monotonic=time.monotonic):
        self._writer, self._clock, self._monotonic = writer, clock, monotonic
        self._lock = threading.RLock()
        self._jobs: dict[str, _Job] = {}
        self._workers: dict[int, _Worker] = {}
        self._epochs: dict[int, _Epoch] = {}
        self._next_epoch = 1
        self._counters = {"total_completed": 0, "total_failed": 0, "completed_by_kind": {}, "failed_by_kind": {}}
        self._ignored_ends = 0
        self._limit = 0
        self._last = monotonic()
        self._began = self._last
        self._state = "running"
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None
        pid = os.getpid()
        self._identity = {"run_id": uuid.uuid4().hex, "pid": pid, "pid_start": process.start_time(pid),
                          "boot_id": process.boot_id(), "host": socket.gethostname(), "version": __version__}

    def _now(self) -> float:
        """Monotonic, also where the clock behind it is not."""
        self._last = max(self._last, self._monotonic())
        return self._last

    # ---- life of the process
    def start(self) -> None:
        """First write; begin the heartbeat."""
        self._write()
        if self._writer is not None:
            self._heartbeat = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
            self._heartbeat.start()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self._write()

    def close(self, state: str = "ended") -> None:
        """Last write; further changes are kept but no longer written by a heartbeat."""
        self._stop.set()
        with self._lock:
            self._state = state
            self._write()

    def _write(self) -> None:
        if self._writer is not None:
            with self._lock:
                self._writer.write(self.document())

    # ---- what the engine reports
    def add_workers(self, workers) -> None:
        """workers: [(worker_id, gpu_ordinal)]."""
        with self._lock:
            for number, ordinal in workers:
                self._workers.setdefault(number, _Worker(ordinal, idle_since=self._now()))

    def set_limits(self, max_concurrent: int) -> None:
        """Partitions that may be synthesised at once."""
        with self._lock:
            self._limit = max_concurrent

    def job_started(self, job_id: str, proof_kind: str, partitions: list[int]) -> None:
        """A job whose partitions are pending now. A finished job of the same id is replaced."""
        with self._lock:
            now = self._now()
            self._jobs.pop(job_id, None)
            self._jobs[job_id] = _Job(proof_kind, now, self._clock(), {k: _Partition(since=now) for k in partitions}, now)
            finished = [name for name, job in self._jobs.items() if job.finished is not None]
            for name in finished[:max(0, len(finished) - KEEP_FINISHED)]:
                del self._jobs[name]
            self._write()

    def job_finished(self, job_id: str, ok: bool, error: str | None = None) -> None:
        """Counts once a job; later calls change nothing."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.finished is not None:
                return
            job.finished, job.ok, job.error, job.waiting_for = self._now(), ok, error, None
            total, by_kind = ("total_completed", "completed_by_kind") if ok else ("total_failed", "failed_by_kind")
            self._counters[total] += 1
            self._counters[by_kind][job.kind] = self._counters[by_kind].get(job.kind, 0) + 1
            self._write()

    def _partition(self, job_id: str, index: int) -> _Partition | None:
        job = self._jobs.get(job_id)
        return None if job is None else job.partitions.get(index)

    def _enter(self, job_id: str, index: int, state: str) -> _Partition | None:
        """Put a partition into a state, unless it is done or unknown."""
        part = self._partition(job_id, index)
        if part is None or part.state == "done":
            return None
        part.state = state
        part.since = self._jobs[job_id].progress_at = self._now()
        return part

    def partition_synthesis_start(self, job_id: str, index: int) -> None:
        with self._lock:
            part = self._enter(job_id, index, "synthesizing")
            if part is not None:
                part.synth_started = part.since
            self._write()

    def partition_synthesis_end(self, job_id: str, index: int, ok: bool, ms: float | None) -> None:
        with self._lock:
            part = self._enter(job_id, index, "synth_done" if ok else "failed")
            if part is not None:
                part.synth_ms = ms
            self._write()

    def partition_gpu_start(self, job_id: str, partition: int | None, worker: int, partitions: list[int] | None = None) -> int:
        """Open an epoch. `partition` None: one piece of work for all of `partitions`."""
        with self._lock:
            number, now = self._next_epoch, self._now()
            self._next_epoch += 1
            indices = [partition] if partition is not None else list(partitions or [])
            epoch = _Epoch(number, job_id, partition, indices, worker, now)
            self._epochs[number] = epoch
            self._workers.setdefault(worker, _Worker(0)).open[number] = epoch
            for index in indices:
                part = self._partition(job_id, index)
                if part is not None:
                    part.epoch = number
                    if self._enter(job_id, index, "gpu") is not None:
                        part.gpu_started, part.gpu_ms, part.error = now, None, None
            self._write()
            return number

    def partition_gpu_end(self, epoch: int, outcome: str, gpu_ms: float | None = None) -> None:
        """Close an epoch: done, failed, or retry (it will be assigned again). gpu_ms: device work, measured by the caller."""
        assert outcome in OUTCOMES, outcome
        with self._lock:
            record = self._epochs.pop(epoch, None)
            if record is None:
                self._ignored_ends += 1
                self._write()
                return
            worker, now = self._workers[record.worker], self._now()
            del worker.open[epoch]
            if not worker.open:
                worker.idle_since = now
            for index in record.partitions:
                part = self._partition(record.job, index)
                if part is None or part.epoch != epoch:
                    continue        # a newer attempt has begun
                if self._enter(record.job, index, {"retry": "synth_done"}.get(outcome, outcome)) is not None:
                    part.gpu_ms = max(gpu_ms if gpu_ms is not None else (now - record.started) * 1e3, 0.0)
            self._write()

    def partition_failed(self, job_id: str, index: int, error: str) -> None:
        with self._lock:
            part = self._enter(job_id, index, "failed")
            if part is not None:
                part.error = error
            self._write()

    def waiting(self, job_id: str, waiting_for: dict | None) -> None:
        """What a job waits for: {kind, need, have}."""
        with self._lock:
            if job_id in self._jobs:
                self._jobs[job_id].waiting_for = waiting_for

    # ---- what is shown
    def snapshot(self) -> dict:
        """The state as upstream's `/status` names it, with what we add."""
        with self._lock:
            now = self._now()
            secs = lambda t: round(max(now - t, 0.0), 3)
            pipelines = []
            for name, job in self._jobs.items():
                parts = [{"index": k, "state": p.state, "synth_ms": p.synth_ms if p.state != "synthesizing" else
                          round((now - p.synth_started) * 1e3, 1),
                          "gpu_ms": round((now - p.gpu_started) * 1e3, 1) if p.state == "gpu" else p.gpu_ms,
                          "since_secs_ago": secs(p.since), "error": p.error} for k, p in job.partitions.items()]
                pipelines.append({
                    "job_id": name, "proof_kind": job.kind, "started_secs_ago": secs(job.started),
                    "total_partitions": len(parts), "partitions_done": sum(p["state"] == "done" for p in parts),
                    "partitions": parts, "started_at_unix": round(job.started_at, 3),
                    "last_progress_secs_ago": secs(job.progress_at), "waiting_for": job.waiting_for,
                    "finished": job.finished is not None, "ok": job.ok, "error": job.error})
            workers = []
            for number, worker in sorted(self._workers.items()):
                newest = worker.open[max(worker.open)] if worker.open else None
                workers.append({
                    "worker_id": number, "gpu_ordinal": worker.ordinal, "state": "proving" if newest else "idle",
                    "current_job": newest.job if newest else None,
                    "current_partition": newest.partition if newest else None,
                    "current_partitions": newest.partitions if newest else [],
                    "busy_secs": secs(newest.started) if newest else None,
                    "idle_secs": None if newest else secs(worker.idle_since),
                    "epoch": newest.number if newest else None, "open_epochs": sorted(worker.open)})
            active = sum(p["state"] == "synthesizing" for j in pipelines for p in j["partitions"])
            queued = sum(p["state"] in ("pending", "synth_done") for j in pipelines if not j["finished"] for p in j["partitions"])
            return {
                "uptime_secs": secs(self._began), "memory": _memory(),
                "synthesis": {"max_concurrent": self._limit, "active": active},
                "pipelines": pipelines, "gpu_workers": workers, "allocations": {"srs": [], "pce": []},
                "counters": {**{k: dict(v) if isinstance(v, dict) else v for k, v in self._counters.items()},
                             "queue_depth": queued, "ignored_ends": self._ignored_ends}}

    def document(self) -> dict:
        """What is written to the file."""
        with self._lock:
            return {"schema_version": SCHEMA_VERSION, "state": self._state, **self._identity,
                    "written_at_unix": round(self._clock(), 3), "heartbeat_seconds": HEARTBEAT_SECONDS,
                    "last_epoch": self._next_epoch - 1, **self.snapshot()}


def _memory() -> dict:
    """Of the system, in bytes."""
    found = {}
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                name, value = line.split(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = int(value.split()[0]) << 10
    except (OSError, ValueError):
        pass
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    used = None if None in (total, available) else total - available
    return {"total_bytes": total, "used_bytes": used, "available_bytes": available}
