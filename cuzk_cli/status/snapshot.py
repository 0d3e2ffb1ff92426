"""The state as a document: upstream's keys under their names first, then ours. Unknown is null, arrays are arrays."""
from __future__ import annotations

import functools
from datetime import datetime, timezone

from . import process
from .state import KEEP_EPOCHS_SECONDS, OUTCOMES, Epoch, Job, Moment, Partition, State


CLOCK_SET = 0.01            # seconds by which the wall clock must be off for times of the past to be told anew


@functools.lru_cache(4096)  # most moments stay from write to write
def rfc3339(unix: float) -> str:
    """UTC, with milliseconds."""
    return datetime.fromtimestamp(unix, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def memory() -> dict:
    """Bytes of the system, and what this process holds."""
    total, available = process.system_memory()
    used = None if total is None or available is None else total - available
    return {"total_bytes": total, "used_bytes": used, "available_bytes": available,
            "rss_bytes": process.resident_bytes()}


def snapshot(state: State, began: Moment, now: Moment) -> dict:
    """What `/status` of the engine that this project follows shows, with additions. Closed epochs are not copied from
    one document to the next: they are not to be changed."""
    pipelines = [_job(job, now) for job in state.jobs.values()]
    running = [job for job in state.jobs.values() if job.finished is None]
    synthesizing = sum(p.state == "synthesizing" for job in state.jobs.values() for p in job.partitions.values())
    tally = state.tally
    error = state.last_error
    return {
        "uptime_secs": _secs(began, now),
        "memory": memory(),
        "synthesis": {"max_concurrent": state.limit, "active": synthesizing},
        "pipelines": pipelines,
        "gpu_workers": [_worker(number, worker, now) for number, worker in sorted(state.workers.items())],
        "allocations": {"srs": [], "pce": []},
        "counters": {
            "total_completed": sum(tally.completed_by_kind.values()),
            "total_failed": sum(tally.failed_by_kind.values()),
            "completed_by_kind": dict(tally.completed_by_kind),
            "failed_by_kind": dict(tally.failed_by_kind),
            "queue_depth": sum(p.state in ("pending", "synth_done") for j in running for p in j.partitions.values()),
            "seconds_by_kind": {kind: round(seconds, 3) for kind, seconds in tally.seconds_by_kind.items()},
            "jobs_started": tally.started, "jobs_running": len(running), "jobs_replaced": tally.replaced,
            "epochs_opened": tally.opened, "epochs_open": len(state.epochs),
            **{f"epochs_{outcome}": tally.outcomes[outcome] for outcome in OUTCOMES},
            "ignored_ends": tally.ignored_ends, "ignored_events": tally.ignored_events},
        "last_epoch": state.last_epoch,
        "epochs": [_epoch(epoch, state.workers[epoch.worker].ordinal, now) for epoch in state.closed
                   if now.mono - epoch.ended.mono <= KEEP_EPOCHS_SECONDS],
        "last_error": error and {**error, "at": rfc3339(error["at"].wall), "at_unix": round(error["at"].wall, 3)},
    }


def _job(job: Job, now: Moment) -> dict:
    parts = job.partitions
    return {
        "job_id": job.id, "proof_kind": job.kind, "started_secs_ago": _secs(job.started, now),
        "total_partitions": len(parts), "partitions_done": sum(p.state == "done" for p in parts.values()),
        "partitions": [_partition(index, part, now) for index, part in parts.items()],
        "stage": job.stage, "attempt": max((p.attempts for p in parts.values()), default=0),
        "waiting_for": job.waiting_for and dict(job.waiting_for),
        "since": rfc3339(job.since.wall), "since_secs_ago": _secs(job.since, now),
        "started_at": rfc3339(job.started.wall), "last_progress_at": rfc3339(job.progress.wall),
        "last_progress_secs_ago": _secs(job.progress, now),
        "finished": job.finished is not None, "ok": job.ok, "error": job.error}


def _partition(index: int, part: Partition, now: Moment) -> dict:
    """Times of what is under way grow."""
    synth = (now.mono - part.synth_started.mono) * 1e3 if part.state == "synthesizing" else part.synth_ms
    gpu = (now.mono - part.gpu_started.mono) * 1e3 if part.state == "gpu" else part.gpu_ms
    return {"index": index, "state": part.state, "synth_ms": _round(synth), "gpu_ms": _round(gpu),
            "synth_wait_ms": _round(part.synth_wait_ms), "gpu_wait_ms": _round(part.gpu_wait_ms),
            "epoch_ms": _round(part.epoch_ms), "attempts": part.attempts, "epoch": part.epoch,
            "since": rfc3339(part.since.wall), "since_secs_ago": _secs(part.since, now), "error": part.error}


def _worker(number: int, worker, now: Moment) -> dict:
    shown = worker.shown
    return {"worker_id": number, "gpu_ordinal": worker.ordinal, "state": "proving" if shown else "idle",
            "current_job": shown and shown.job_id, "current_partition": shown and shown.partition,
            "busy_secs": _secs(shown.started, now) if shown else None,
            "idle_secs": None if shown else _secs(worker.since, now),
            "epoch": shown and shown.number, "open_epochs": sorted(worker.open),
            "current_partitions": list(shown.partitions) if shown else []}


def _epoch(epoch: Epoch, ordinal: int, now: Moment) -> dict:
    """A closed one: the same object every time. Its times are told by the present wall clock, so that a clock that was
    set moves all of them."""
    offset = now.wall - now.mono
    if epoch.shown is None or abs(epoch.shown_offset - offset) > CLOCK_SET:
        epoch.shown_offset = offset
        epoch.shown = {
            "epoch": epoch.number, "job_id": epoch.job_id, "partition": epoch.partition,
            "partitions": list(epoch.partitions), "worker_id": epoch.worker, "gpu_ordinal": ordinal,
            "outcome": epoch.outcome, "gpu_ms": _round(epoch.gpu_ms),
            "started_at_unix": round(offset + epoch.started.mono, 3),
            "ended_at_unix": round(offset + epoch.ended.mono, 3)}
    return epoch.shown


def _secs(start: Moment, now: Moment) -> float:
    return round(max(now.mono - start.mono, 0.0), 3)


def _round(ms: float | None) -> float | None:
    return None if ms is None else round(max(ms, 0.0), 1)
