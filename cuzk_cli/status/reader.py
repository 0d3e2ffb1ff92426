"""Read the status files of all processes into one answer. The reader decides what is fresh; it never raises for what it finds.

fresh: written lately by a process that lives. stale: it lives but has not written for `stale_after`. dead: it is gone without
having said so. ended: it said so, shown for ten minutes. absent: there is no file at all.
"""
from __future__ import annotations

import json
import time
from pathlib import Path

from . import process
from .tracker import SCHEMA_VERSION
from .writer import ENDED_SECONDS, status_folder

STALE_AFTER = 15.0                          # seconds: five heartbeats
_WORST = ("fresh", "unreadable", "stale", "dead")


def _empty() -> dict:
    return {"uptime_secs": 0.0, "memory": {"total_bytes": None, "used_bytes": None, "available_bytes": None},
            "synthesis": {"max_concurrent": 0, "active": 0}, "pipelines": [], "gpu_workers": [],
            "allocations": {"srs": [], "pce": []},
            "counters": {"total_completed": 0, "total_failed": 0, "completed_by_kind": {}, "failed_by_kind": {},
                         "queue_depth": 0, "ignored_ends": 0}}


def _load(path: Path) -> tuple[dict | None, str | None]:
    """A document, or why there is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    if not data.strip():
        return None, f"{path}: empty"
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None, f"{path}: not whole, or no JSON"
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), int):
        return None, f"{path}: no status document"
    if document["schema_version"] > SCHEMA_VERSION:
        return None, f"{path}: schema {document['schema_version']} is newer than {SCHEMA_VERSION}: use a newer cuzk"
    expected = {**_empty(), "pid": 0, "state": "", "written_at_unix": 0.0}
    for key, value in expected.items():
        kind = (int, float) if isinstance(value, (int, float)) else type(value)
        if not isinstance(document.get(key), kind):
            return None, f"{path}: {key} is missing or of another type"
    return document, None


def _judge(document: dict, now: float, stale_after: float) -> tuple[str, float, list[str]]:
    """(state, age, reasons) of one document."""
    age, reasons = now - document["written_at_unix"], []
    if age < 0:
        reasons.append(f"pid {document['pid']}: written {-age:.0f} s in the future: the clock went back")
        age = 0.0
    lives = process.alive(document["pid"], document.get("pid_start"), document.get("boot_id"))
    if document["state"] == "ended":
        return "ended", age, reasons
    if not lives:
        return "dead", age, reasons + [f"pid {document['pid']}: the process is gone"]
    if age > stale_after:
        return "stale", age, reasons + [f"pid {document['pid']}: no write for {age:.0f} s"]
    return "fresh", age, reasons


def read_status(option: str | None = None, pid: int | None = None, stale_after: float = STALE_AFTER) -> dict:
    """One object over all processes (or of one): upstream's keys, then `processes`, `ok`, `state`, `reasons`."""
    folder, now, answer = status_folder(option), time.time(), _empty()
    processes, reasons, states, ages = [], [], [], []
    try:
        paths = sorted(folder.glob("status-*.json" if pid is None else f"status-{pid}.json"))
    except OSError as error:
        paths, reasons = [], [f"{folder}: {error.strerror}"]
    for path in paths:
        document, reason = _load(path)
        if document is None:
            states.append("unreadable")
            reasons.append(reason)
            continue
        state, age, why = _judge(document, now, stale_after)
        if state == "ended" and age > ENDED_SECONDS:
            continue
        reasons += why
        if state != "ended":
            states.append(state)
            ages.append(age)
        processes.append({"run_id": document.get("run_id"), "pid": document["pid"], "pid_start": document.get("pid_start"),
                          "boot_id": document.get("boot_id"), "state": state, "age_seconds": round(age, 3),
                          "version": document.get("version"), "status_file": str(path)})
        _merge(answer, document, state)
    overall = max(states, key=_WORST.index) if states else ("ended" if processes else "absent")
    return {**answer, "schema_version": SCHEMA_VERSION, "ok": bool(processes) and set(states) <= {"fresh"},
            "state": overall, "reasons": reasons, "processes": processes, "status_folder": str(folder),
            "generated_at_unix": round(now, 3), "age_seconds": round(max(ages), 3) if ages else None,
            "stale_after_seconds": stale_after}


def _merge(answer: dict, document: dict, state: str) -> None:
    """Add one process's document."""
    owner = {"pid": document["pid"], "run_id": document.get("run_id")}
    answer["uptime_secs"] = max(answer["uptime_secs"], document["uptime_secs"])
    answer["memory"] = document["memory"]
    answer["pipelines"] += [{**job, **owner} for job in document["pipelines"]]
    for key in ("total_completed", "total_failed"):
        answer["counters"][key] += document["counters"].get(key, 0)
    for key in ("completed_by_kind", "failed_by_kind"):
        for kind, count in document["counters"].get(key, {}).items():
            answer["counters"][key][kind] = answer["counters"][key].get(kind, 0) + count
    answer["counters"]["ignored_ends"] += document["counters"].get("ignored_ends", 0)
    if state in ("ended", "dead"):      # a process that is gone proves nothing
        return
    answer["gpu_workers"] += [{**worker, **owner} for worker in document["gpu_workers"]]
    answer["counters"]["queue_depth"] += document["counters"].get("queue_depth", 0)
    for key in ("max_concurrent", "active"):
        answer["synthesis"][key] += document["synthesis"].get(key, 0)
