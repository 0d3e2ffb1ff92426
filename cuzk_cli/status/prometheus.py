"""The reader's answer in Prometheus' text format (a textfile collector's), under upstream's metric names."""
from __future__ import annotations

from .state import PARTITION_STATES


def prometheus(answer: dict) -> str:
    """Ends with a newline, holds no timestamps."""
    counters, workers = answer["counters"], answer["gpu_workers"]
    running = [job for job in answer["pipelines"] if not job["finished"]]
    states = [part["state"] for job in running for part in job["partitions"]]
    by_kind = counters["completed_by_kind"]
    metrics = [
        ("cuzk_proofs_completed_total", "counter", "Proofs completed.", [("", {}, counters["total_completed"])]),
        ("cuzk_proofs_failed_total", "counter", "Proofs failed.", [("", {}, counters["total_failed"])]),
        ("cuzk_proofs_completed", "counter", "Proofs completed, by kind.",
         [("", {"proof_kind": k}, v) for k, v in by_kind.items()]),
        ("cuzk_proofs_failed", "counter", "Proofs failed, by kind.",
         [("", {"proof_kind": k}, v) for k, v in counters["failed_by_kind"].items()]),
        ("cuzk_proof_duration_seconds", "summary", "From a job's start to its completed proof.",
         [sample for k, seconds in counters["seconds_by_kind"].items() for sample in
          (("_count", {"proof_kind": k}, by_kind.get(k, 0)), ("_sum", {"proof_kind": k}, seconds))]),
        ("cuzk_uptime_seconds", "gauge", "Of the process that runs longest.", [("", {}, answer["uptime_secs"])]),
        ("cuzk_queue_depth", "gauge", "Partitions that wait for synthesis or a device.",
         [("", {}, counters["queue_depth"])]),
        ("cuzk_running_jobs", "gauge", "Jobs not yet finished.", [("", {}, len(running))]),
        ("cuzk_gpu_workers", "gauge", "Device workers.", [("", {}, len(workers))]),
        ("cuzk_gpu_workers_proving", "gauge", "Device workers that have work open.",
         [("", {}, sum(worker["state"] == "proving" for worker in workers))]),
        ("cuzk_partitions", "gauge", "Partitions of running jobs, by state.",
         [("", {"state": state}, states.count(state)) for state in PARTITION_STATES]),
        ("cuzk_up", "gauge", "1 when every process is fresh.", [("", {}, int(answer["ok"]))]),
        ("cuzk_status_age_seconds", "gauge", "Age of the oldest status that counts.",
         [] if answer["age_seconds"] is None else [("", {}, answer["age_seconds"])]),
    ]
    lines = []
    for name, kind, text, samples in metrics:
        if samples:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{suffix}{_labels(labels)} {value}" for suffix, labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    escaped = (f'{key}="{_escape(value)}"' for key, value in labels.items())
    return "{" + ",".join(escaped) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "replace").decode()
