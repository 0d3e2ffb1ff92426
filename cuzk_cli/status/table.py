"""The reader's answer for people: plain text, job ids whole."""
from __future__ import annotations


def table(answer: dict) -> str:
    """Lines without a newline at the end; control characters of what was read are left out."""
    lines = [f"state: {answer['state']}"] + [f"  {reason}" for reason in answer["reasons"]]
    for found in answer["processes"]:
        age = "" if found["age_seconds"] is None else f", written {found['age_seconds']:.0f} s ago"
        lines.append(f"process {found['pid']}: {found['state']}{age}")
    lines += _columns([_worker(worker) for worker in answer["gpu_workers"]])
    lines += [f"blocked: {read['operation']} {read['path']} {_time(read['seconds'])}" for read in answer["blocked"]]
    lines += [f"{entry['label']}  {entry['kind']}  loading  {_time(entry['seconds'])}" for entry in answer["loading"]]
    for job in answer["pipelines"]:
        done = f"{job['partitions_done']}/{job['total_partitions']}"
        lines.append("  ".join([job["job_id"], job["proof_kind"], job["stage"], done, _time(job["started_secs_ago"]),
                                *_waiting(job), *([job["error"]] if job["error"] else [])]))
        if not job["finished"] or not job["ok"]:
            lines += _columns([_partition(part) for part in job["partitions"]])
    counters = answer["counters"]
    lines.append(f"completed {counters['total_completed']}, failed {counters['total_failed']}, "
                 f"waiting partitions {counters['queue_depth']}")
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines)


def _worker(worker: dict) -> list[str]:
    name = f"W{worker['worker_id']}"
    if worker["state"] == "idle":
        return [name, "idle", "", _time(worker["idle_secs"]), f"pid {worker['pid']}"]
    what = worker["current_partition"]
    part = f"P{what}" if what is not None else ",".join(f"P{k}" for k in worker["current_partitions"])
    return [name, "proving", f"{worker['current_job']} {part}", _time(worker["busy_secs"]), f"pid {worker['pid']}"]


def _partition(part: dict) -> list[str]:
    return [f"P{part['index']}", part["state"], f"synth {_ms(part['synth_ms'])}", f"gpu {_ms(part['gpu_ms'])}",
            part["error"] or ""]


def _waiting(job: dict) -> list[str]:
    waiting = job["waiting_for"]
    if not waiting:
        return []
    rest = "".join(f" {key} {value}" for key, value in waiting.items() if key != "kind" and value is not None)
    return [f"waiting for {waiting.get('kind')}{rest} ({_time(job['since_secs_ago'])})"]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    if minutes == 0:
        return f"{seconds:.1f}s"
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else _time(milliseconds / 1e3)


def _columns(rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
