"""JSON Schema (draft 2020-12) of what is written to a status file and of the reader's answer, and a check against it.

Keys are only ever added, so that objects may have more than is listed. The check covers the words used here and no
others, with the standard library alone; it also refuses numbers that are not finite or not exact in a double.
"""
from __future__ import annotations

import math

from .state import OUTCOMES, PARTITION_STATES

_TEXT, _COUNT, _FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
_SECS = {"type": "number", "minimum": 0}
_NUMBER = {"type": "number"}


def _null(of: dict) -> dict:
    """The same, or null."""
    listed = [of["type"]] if isinstance(of["type"], str) else of["type"]
    return {**of, "type": [*listed, "null"]}


def _object(properties: dict, **more) -> dict:
    """All of `properties` required."""
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _list(items: dict) -> dict:
    return {"type": "array", "items": items}


_COUNT_BY_KIND = {"type": "object", "additionalProperties": _COUNT}

_MEMORY = _object({"total_bytes": _null(_COUNT), "used_bytes": _null(_COUNT), "available_bytes": _null(_COUNT),
                   "rss_bytes": _null(_COUNT)})
_SYNTHESIS = _object({"max_concurrent": _COUNT, "active": _COUNT})
_PARTITION = _object({
    "index": _COUNT, "state": {"type": "string", "enum": list(PARTITION_STATES)},
    "synth_ms": _null(_SECS), "gpu_ms": _null(_SECS), "synth_wait_ms": _null(_SECS), "gpu_wait_ms": _null(_SECS),
    "epoch_ms": _null(_SECS), "attempts": _COUNT, "epoch": _null(_COUNT), "since": _TEXT, "since_secs_ago": _SECS,
    "error": _null(_TEXT)})
_PIPELINE = {
    "job_id": _TEXT, "proof_kind": _TEXT, "started_secs_ago": _SECS, "total_partitions": _COUNT,
    "partitions_done": _COUNT, "partitions": _list(_PARTITION),
    "stage": {"type": "string", "enum": ["queued", "synthesis", "gpu", "done", "failed"]}, "attempt": _COUNT,
    "waiting_for": {"type": ["object", "null"]}, "since": _TEXT, "since_secs_ago": _SECS, "started_at": _TEXT,
    "last_progress_at": _TEXT, "last_progress_secs_ago": _SECS, "finished": _FLAG, "ok": _null(_FLAG),
    "error": _null(_TEXT)}
_WORKER = {
    "worker_id": _COUNT, "gpu_ordinal": _COUNT, "state": {"type": "string", "enum": ["idle", "proving"]},
    "current_job": _null(_TEXT), "current_partition": _null(_COUNT), "busy_secs": _null(_SECS),
    "idle_secs": _null(_SECS), "epoch": _null(_COUNT), "open_epochs": _list(_COUNT),
    "current_partitions": _list(_COUNT)}
_ALLOCATIONS = _object({"srs": _list({"type": "object"}), "pce": _list({"type": "object"})})
_COUNTERS = _object({
    "total_completed": _COUNT, "total_failed": _COUNT, "completed_by_kind": _COUNT_BY_KIND,
    "failed_by_kind": _COUNT_BY_KIND, "queue_depth": _COUNT,
    "seconds_by_kind": {"type": "object", "additionalProperties": _SECS},
    "jobs_started": _COUNT, "jobs_running": _COUNT, "jobs_replaced": _COUNT, "epochs_opened": _COUNT,
    "epochs_open": _COUNT, "epochs_done": _COUNT, "epochs_failed": _COUNT, "epochs_retry": _COUNT,
    "ignored_ends": _COUNT, "ignored_events": _COUNT})
_ERROR = {"code": _null(_TEXT), "exit": _null(_COUNT), "stage": _TEXT, "job_id": _TEXT, "message": _null(_TEXT),
          "at": _TEXT, "at_unix": _NUMBER}
_OWNER = {"pid": _COUNT, "run_id": _TEXT}
_LOADING = {"kind": _TEXT, "label": _TEXT, "seconds": _SECS}
_BLOCKED = {"operation": _TEXT, "path": _TEXT, "seconds": _SECS}
_EPOCH = {"epoch": _COUNT, "job_id": _TEXT, "partition": _null(_COUNT), "partitions": _list(_COUNT),
          "worker_id": _COUNT, "gpu_ordinal": _COUNT, "outcome": {"type": "string", "enum": list(OUTCOMES)},
          "gpu_ms": _null(_SECS), "started_at_unix": _NUMBER, "ended_at_unix": _NUMBER}
_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}

DOCUMENT = {**_DIALECT, "title": "status file of one process", **_object({
    "uptime_secs": _SECS, "memory": _MEMORY, "synthesis": _SYNTHESIS, "pipelines": _list(_object(_PIPELINE)),
    "gpu_workers": _list(_object(_WORKER)), "allocations": _ALLOCATIONS, "counters": _COUNTERS,
    "last_epoch": _COUNT, "last_error": _null(_object(_ERROR)),
    "schema_version": _COUNT, "state": {"type": "string", "enum": ["running", "ended"]},
    "run_id": _TEXT, "pid": _COUNT, "pid_start": _null(_COUNT), "boot_id": _null(_TEXT), "host": _TEXT,
    "version": _TEXT, "written_at": _TEXT, "written_at_unix": _NUMBER, "written_at_boottime": _null(_NUMBER),
    "heartbeat_seconds": _SECS})}
DOCUMENT["properties"] |= {     # added later
    "loading": _list(_object(_LOADING)), "blocked": _list(_object(_BLOCKED)), "epochs": _list(_object(_EPOCH))}

ANSWER = {**_DIALECT, "title": "cuzk status --json", **_object({
    "uptime_secs": _SECS, "memory": _MEMORY, "synthesis": _SYNTHESIS,
    "pipelines": _list(_object({**_PIPELINE, **_OWNER})), "gpu_workers": _list(_object({**_WORKER, **_OWNER})),
    "allocations": _ALLOCATIONS, "loading": _list(_object({**_LOADING, **_OWNER})),
    "blocked": _list(_object({**_BLOCKED, **_OWNER})), "epochs": _list(_object({**_EPOCH, **_OWNER})),
    "counters": _object({**_COUNTERS["properties"], "completed_total": _COUNT, "failed_total": _COUNT}),
    "schema_version": {"type": "integer", "enum": [1]}, "ok": _FLAG,
    "state": {"type": "string", "enum": ["fresh", "stale", "dead", "absent", "unreadable"]}, "reasons": _list(_TEXT),
    "generated_at": _TEXT, "generated_at_unix": _NUMBER, "written_at_unix": _null(_NUMBER), "age_seconds": _null(_SECS),
    "stale_after_seconds": _SECS, "status_folder": _TEXT,
    "processes": _list(_object({
        "run_id": _null(_TEXT), "pid": _null(_COUNT), "pid_start": _null(_COUNT), "boot_id": _null(_TEXT),
        "state": {"type": "string", "enum": ["fresh", "stale", "dead", "ended", "unreadable"]},
        "age_seconds": _null(_SECS), "written_at_unix": _null(_NUMBER), "host": _null(_TEXT), "version": _null(_TEXT),
        "status_file": _TEXT, "reason": _null(_TEXT)})),
    "jobs": _list(_object({
        "job_id": _TEXT, "proof_kind": _TEXT, "sector": _null(_TEXT), "stage": _TEXT, "attempt": _COUNT,
        "partitions_done": _COUNT, "partitions_total": _COUNT, "started_at": _TEXT, "last_progress_at": _TEXT,
        "eta_seconds": _null(_SECS), "waiting_for": {"type": ["object", "null"]}, "pid": _COUNT})),
    "gpus": _list(_object({"ordinal": _COUNT, "state": {"type": "string", "enum": ["idle", "proving"]},
                           "job_id": _null(_TEXT), "pid": _COUNT})),
    "last_error": _null(_object({**_ERROR, "pid": _COUNT}))})}

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
          "number": (int, float)}


def mismatch(value, schema: dict, path: str = "") -> str | None:
    """The first place where `value`, as JSON was parsed, is not as `schema` says; None when there is none."""
    where = path or "document"
    listed = schema.get("type", ())
    kinds = [listed] if isinstance(listed, str) else listed
    if kinds and not any(_is(value, kind) for kind in kinds):
        return f"{where}: expected {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: expected one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, (int, float)) and value < schema.get("minimum", -math.inf):
        return f"{where}: below {schema['minimum']}"
    if isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                return f"{where}: {key} is missing"
        listed, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, item in value.items():
            found = mismatch(item, listed.get(key, others), f"{path}.{key}" if path else key)
            if found:
                return found
    if isinstance(value, list):
        for i, item in enumerate(value):
            found = mismatch(item, schema.get("items", {}), f"{path}[{i}]")
            if found:
                return found
    return None


def _is(value, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, _TYPES[kind]) and not isinstance(value, bool) and abs(value) < 2**53
    return isinstance(value, _TYPES[kind])
