"""The reader's answer as a monitoring plugin gives it: one line and an exit code (Nagios plugin guidelines)."""
from __future__ import annotations

CODES = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}


def check(answer: dict, warning: float, critical: float, absent: str = "unknown") -> tuple[str, int]:
    """(line, code). Thresholds are ages in seconds; `absent`: ok, warning, critical or unknown for no process.

    stale is a warning at least, dead is critical, unreadable unknown. Thresholds that make no sense are unknown.
    """
    if not 0 <= warning <= critical or absent.upper() not in CODES:
        text = "expected 0 <= warning <= critical, and absent one of ok, warning, critical, unknown"
        return f"CUZK UNKNOWN - {text}", CODES["UNKNOWN"]
    state, age = answer["state"], answer["age_seconds"]
    if state == "absent":
        word = absent.upper()
    elif state in ("dead", "unreadable"):
        word = "CRITICAL" if state == "dead" else "UNKNOWN"
    else:
        word = "CRITICAL" if age >= critical else "WARNING" if age >= warning or state == "stale" else "OK"
    jobs = [job for job in answer["pipelines"] if not job["finished"]]
    done, total = sum(job["partitions_done"] for job in jobs), sum(job["total_partitions"] for job in jobs)
    text = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}, {done}/{total} partitions, {state}"
    if answer["reasons"]:
        text += f": {answer['reasons'][0]}"
    numbers = f"age={'U' if age is None else f'{age:.0f}s'};{warning:g};{critical:g};0 partitions={done};;;0;{total}"
    text = " ".join("".join(c if c.isprintable() else " " for c in text.replace("|", "/")).split())
    return f"CUZK {word} - {text} | {numbers}", CODES[word]
