"""The answer of the reader for people, for Nagios and for Prometheus."""
from __future__ import annotations

NAGIOS = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}


def table(answer: dict) -> str:
    """A few lines of text."""
    lines = [f"state: {answer['state']}" + (f" ({'; '.join(answer['reasons'])})" if answer["reasons"] else "")]
    for worker in answer["gpu_workers"]:
        what = "idle"
        if worker["state"] == "proving":
            part = worker["current_partition"]
            what = f"proving {worker['current_job']}" + (f"/P{part}" if part is not None else "") + f", {worker['busy_secs']:.0f} s"
        lines.append(f"W{worker['worker_id']} (pid {worker['pid']}): {what}")
    for job in answer["pipelines"]:
        parts = " ".join(f"P{p['index']}:{p['state']}" for p in job["partitions"])
        lines.append(f"{job['job_id']} {job['proof_kind']} {job['partitions_done']}/{job['total_partitions']} {parts}")
    counters = answer["counters"]
    lines.append(f"completed {counters['total_completed']}, failed {counters['total_failed']}, queued {counters['queue_depth']}")
    return "\n".join(lines)


def nagios(answer: dict, warning: float, critical: float, absent: str) -> tuple[str, int]:
    """One line and its exit code. Thresholds are ages in seconds."""
    state, age = answer["state"], answer["age_seconds"]
    if state == "absent":
        word = absent.upper()
    elif state == "ended":
        word = "OK"
    elif state == "dead" or state == "unreadable":
        word = "CRITICAL" if state == "dead" else "UNKNOWN"
    else:
        word = "CRITICAL" if age >= critical else "WARNING" if age >= warning or state == "stale" else "OK"
    jobs = [j for j in answer["pipelines"] if not j["finished"]]
    done, total = sum(j["partitions_done"] for j in jobs), sum(j["total_partitions"] for j in jobs)
    text = f"{len(jobs)} jobs, {done}/{total} partitions, {state}" + (f": {answer['reasons'][0]}" if answer["reasons"] else "")
    numbers = f"age={0 if age is None else age:.0f}s;{warning:g};{critical:g};0 partitions={done};;;0;{total}"
    return f"CUZK {word} - {' '.join(text.replace('|', '/').split())} | {numbers}", NAGIOS[word]


def prometheus(answer: dict) -> str:
    """Textfile format, upstream's metric names."""
    counters, label = answer["counters"], lambda kind: kind.replace("\\", "").replace('"', "").replace("\n", "")
    running = sum(not j["finished"] for j in answer["pipelines"])
    rows = [("cuzk_proofs_completed_total", "counter", [("", counters["total_completed"])]),
            ("cuzk_proofs_failed_total", "counter", [("", counters["total_failed"])]),
            ("cuzk_proofs_completed", "counter", [(f'{{proof_kind="{label(k)}"}}', v) for k, v in counters["completed_by_kind"].items()]),
            ("cuzk_proofs_failed", "counter", [(f'{{proof_kind="{label(k)}"}}', v) for k, v in counters["failed_by_kind"].items()]),
            ("cuzk_uptime_seconds", "gauge", [("", answer["uptime_secs"])]),
            ("cuzk_queue_depth", "gauge", [("", counters["queue_depth"])]),
            ("cuzk_running_jobs", "gauge", [("", running)]),
            ("cuzk_gpu_workers", "gauge", [("", len(answer["gpu_workers"]))]),
            ("cuzk_up", "gauge", [("", int(answer["ok"]))])]
    lines = []
    for name, kind, samples in rows:
        if samples:
            lines.append(f"# TYPE {name} {kind}")
            lines += [f"{name}{labels} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"
