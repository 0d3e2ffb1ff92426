"""Read the status files of all processes into one answer. The reader decides what is fresh; it never raises.

fresh: written lately by a process that lives. stale: it lives, but has not written for `stale_after`: it hangs. dead:
it is gone without having said so, or its machine was started again. ended: it said so; shown for ten minutes, counted
in neither `ok` nor `state`. unreadable: there is a file, but no document. absent: nothing that counts.
"""
from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from . import process, schema
from .snapshot import rfc3339
from .state import KEEP_EPOCHS
from .tracker import SCHEMA_VERSION
from .writer import ENDED_SECONDS, STATUS_NAME, read_whole, status_folder

STALE_AFTER = 15.0                                      # seconds: several heartbeats
_WORST = ("fresh", "unreadable", "stale", "dead")       # the last is the worst
_GONE = ("ended", "dead")


class _File(NamedTuple):
    """A status file, judged."""

    path: Path
    pid: int
    document: dict | None
    state: str                  # fresh, stale, dead, ended, unreadable
    age: float | None           # seconds
    reason: str | None


def read_status(option: str | os.PathLike | None = None, pid: int | None = None,
                stale_after: float = STALE_AFTER) -> dict:
    """One object over all processes, or of one: see `schema.ANSWER`. option: folder, as in `status_folder`."""
    folder, now = status_folder(option), time.time()
    files, reason = _files(folder, pid, now, stale_after)
    counted = [file for file in files if file.state != "ended"]
    states = [file.state for file in counted] + (["unreadable"] if reason else [])
    whole = [file.document["written_at_unix"] for file in counted if file.document]
    ages = [file.age for file in counted if file.age is not None]
    merged = _merged(files)
    return {
        **merged, "schema_version": SCHEMA_VERSION, "ok": bool(states) and set(states) == {"fresh"},
        "state": max(states, key=_WORST.index, default="absent"),
        "reasons": ([reason] if reason else []) + [file.reason for file in files if file.reason],
        "generated_at": rfc3339(now), "generated_at_unix": round(now, 3), "written_at_unix": max(whole, default=None),
        "age_seconds": round(max(ages), 3) if ages else None, "stale_after_seconds": stale_after,
        "status_folder": str(folder), "processes": [_process(file) for file in files],
        "jobs": [_job(job) for job in merged["pipelines"]], "gpus": _gpus(merged["gpu_workers"])}


def _files(folder: Path, pid: int | None, now: float, stale_after: float) -> tuple[list[_File], str | None]:
    """The status files that are shown, by pid, and why the folder cannot be read."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return [], None
    except (OSError, ValueError) as error:
        return [], f"{folder}: {getattr(error, 'strerror', None) or error}"
    pids = sorted(int(match[1]) for match in map(STATUS_NAME.fullmatch, names) if match)
    files = [_file(folder / f"status-{number}.json", number, now, stale_after)
             for number in pids if pid in (None, number)]
    return [file for file in files if file is not None], None


def _file(path: Path, pid: int, now: float, stale_after: float) -> _File | None:
    """None for what was removed meanwhile, and for what ended too long ago."""
    try:
        document, reason = _load(path)
    except FileNotFoundError:
        return None
    if document is None:
        return _File(path, pid, None, "unreadable", None, reason)
    state, age, reason = _judge(document, now, stale_after)
    return None if state == "ended" and age > ENDED_SECONDS else _File(path, pid, document, state, age, reason)


def _refuse(word: str):
    raise ValueError(word)


def _load(path: Path) -> tuple[dict | None, str | None]:
    """A document, or why there is none."""
    try:
        data = read_whole(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        return None, f"{path}: {error.strerror or error}"
    if not data.strip():
        return None, f"{path}: empty"
    try:
        document = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, f"{path}: not whole, or no JSON"
    if not isinstance(document, dict):
        return None, f"{path}: no status document"
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return None, f"{path}: schema {str(version)[:20]} is newer than {SCHEMA_VERSION}: a newer cuzk reads it"
    wrong = schema.mismatch(document, schema.DOCUMENT)
    return (None, f"{path}: {wrong}") if wrong else (document, None)


def _judge(document: dict, now: float, stale_after: float) -> tuple[str, float, str | None]:
    """(state, age, reason). The age is the greater of two: the wall clock may go back, seconds since boot cannot.
    """
    who, age, reason = f"pid {document['pid']}", now - document["written_at_unix"], None
    if age < -1.0:
        reason = f"{who}: written {-age:.0f} s in the future: the clock went back"
    age = max(age, 0.0)
    boot, since_boot, written = process.boot_id(), process.boot_time(), document["written_at_boottime"]
    if document["boot_id"] == boot and None not in (boot, since_boot, written):
        age = max(age, since_boot - written)
    if document["state"] == "ended":
        return "ended", age, reason
    if not process.alive(document["pid"], document["pid_start"], document["boot_id"]):
        return "dead", age, f"{who}: the process is gone"
    if age > stale_after:
        return "stale", age, f"{who}: no write for {age:.0f} s"
    return "fresh", age, reason


# ---- the answer's parts
def _empty() -> dict:
    counters = dict.fromkeys(schema.DOCUMENT["properties"]["counters"]["required"], 0)
    for key in ("completed_by_kind", "failed_by_kind", "seconds_by_kind"):
        counters[key] = {}
    return {"uptime_secs": 0.0,
            "memory": {"total_bytes": None, "used_bytes": None, "available_bytes": None, "rss_bytes": None},
            "synthesis": {"max_concurrent": 0, "active": 0}, "pipelines": [], "gpu_workers": [],
            "allocations": {"srs": [], "pce": []}, "loading": [], "blocked": [], "epochs": [],
            "counters": counters, "last_error": None}


def _process(file: _File) -> dict:
    document = file.document or {"pid": file.pid}
    return {**{key: document.get(key) for key in ("run_id", "pid", "pid_start", "boot_id")}, "state": file.state,
            "age_seconds": None if file.age is None else round(file.age, 3),
            "written_at_unix": document.get("written_at_unix"),
            "host": document.get("host"), "version": document.get("version"), "status_file": str(file.path),
            "reason": file.reason}


def _merged(files: list[_File]) -> dict:
    """Upstream's keys, over all processes; live ones first, the newest first."""
    answer = _empty()
    whole = [file for file in files if file.document]
    for file in sorted(whole, key=lambda file: (file.state in _GONE, -file.document["written_at_unix"])):
        _merge(answer, file.document, file.state)
    counters = answer["counters"]
    answer["epochs"] = sorted(answer["epochs"], key=lambda epoch: epoch["ended_at_unix"])[-KEEP_EPOCHS:]
    counters["completed_total"], counters["failed_total"] = counters["total_completed"], counters["total_failed"]
    return answer


def _merge(answer: dict, document: dict, state: str) -> None:
    """Add one process. One that is gone works on nothing: its workers are left out, its unfinished work has failed."""
    owner = {"pid": document["pid"], "run_id": document["run_id"]}
    gone = state in _GONE
    counters, more = answer["counters"], document["counters"]
    current = ("queue_depth", "jobs_running", "epochs_open")
    for key, value in counters.items():
        if isinstance(value, dict):
            for kind, count in more[key].items():
                value[kind] = value.get(kind, 0) + count
        elif not (gone and key in current):
            counters[key] = value + more[key]
    answer["pipelines"] += [{**(_interrupted(job, state) if gone else job), **owner} for job in document["pipelines"]]
    answer["epochs"] += [{**epoch, **owner} for epoch in document.get("epochs", ())]     # history, also of what is gone
    error, shown = document["last_error"], answer["last_error"]
    if error is not None and (shown is None or shown["at_unix"] < error["at_unix"]):
        answer["last_error"] = {**error, "pid": document["pid"]}
    if gone:
        return
    answer["uptime_secs"] = max(answer["uptime_secs"], document["uptime_secs"])
    memory, resident = document["memory"], answer["memory"]["rss_bytes"]
    if answer["memory"]["total_bytes"] is None:
        answer["memory"] = dict(memory)
    elif memory["rss_bytes"] is not None:
        answer["memory"]["rss_bytes"] = (resident or 0) + memory["rss_bytes"]
    for key in ("gpu_workers", "loading", "blocked"):
        answer[key] += [{**entry, **owner} for entry in document.get(key, ())]
    for key, value in answer["synthesis"].items():
        answer["synthesis"][key] = value + document["synthesis"][key]
    for key, value in answer["allocations"].items():
        value += document["allocations"][key]


def _interrupted(job: dict, state: str) -> dict:
    """A job of a process that is gone."""
    if job["finished"]:
        return job
    why = f"the process {'died' if state == 'dead' else 'ended'} first"
    partitions = [part if part["state"] in ("done", "failed") else {**part, "state": "failed", "error": why}
                  for part in job["partitions"]]
    return {**job, "partitions": partitions, "stage": "failed", "waiting_for": None, "finished": True, "ok": False,
            "error": why}


def _job(pipeline: dict) -> dict:
    """The short form, for jq."""
    sector = re.match(r"[a-z]+-([0-9]+)-([0-9]+)(?:-|$)", pipeline["job_id"])
    return {"job_id": pipeline["job_id"], "proof_kind": pipeline["proof_kind"],
            "sector": f"s-t0{sector[1]}-{sector[2]}" if sector else None,
            **{key: pipeline[key] for key in ("stage", "attempt", "partitions_done")},
            "partitions_total": pipeline["total_partitions"], "eta_seconds": None,
            **{key: pipeline[key] for key in ("started_at", "last_progress_at", "waiting_for", "pid")}}


def _gpus(workers: list[dict]) -> list[dict]:
    """Devices as each process sees them: proving when one of its workers is."""
    found: dict[tuple[int, int], dict] = {}
    for worker in workers:
        device = found.setdefault((worker["pid"], worker["gpu_ordinal"]), {
            "ordinal": worker["gpu_ordinal"], "state": "idle", "job_id": None, "pid": worker["pid"]})
        if worker["state"] == "proving" and device["state"] == "idle":
            device["state"], device["job_id"] = "proving", worker["current_job"]
    return list(found.values())
