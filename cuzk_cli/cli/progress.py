"""Progress on standard error: bars on a terminal, plain lines with a heartbeat elsewhere."""
from __future__ import annotations

import json
import sys
import time

from .streams import say

HEARTBEAT = 10.0        # seconds without a line
MODES = ("auto", "plain", "json", "none")


def resolve(mode: str) -> str:
    """auto becomes bars on a terminal, plain elsewhere."""
    if mode != "auto":
        return mode
    try:
        return "bars" if sys.stderr.isatty() else "plain"
    except (AttributeError, ValueError):        # closed
        return "none"


class Progress:
    """Of proofs, read from the tracker: call `update` often with its snapshot, `close` once."""

    def __init__(self, mode: str):
        self.mode = resolve(mode)
        self._states: dict = {}
        self._bars: dict = {}
        self._spoken = self._started = time.monotonic()

    def update(self, snapshot: dict) -> None:
        """Show what changed since the last call, and that we live."""
        if self.mode == "none":
            return
        for job in snapshot["pipelines"]:
            for part in job["partitions"]:
                key = job["job_id"], part["index"]
                if self._states.get(key) != part["state"]:
                    self._states[key] = part["state"]
                    self._changed(job, part)
        if self.mode in ("plain", "json") and time.monotonic() - self._spoken > HEARTBEAT:
            self._beat(snapshot)

    def _beat(self, snapshot: dict) -> None:
        seconds = round(time.monotonic() - self._started)
        busy = [w for w in snapshot["gpu_workers"] if w["state"] == "proving"]
        if self.mode == "json":
            workers = [{"worker_id": w["worker_id"], "job_id": w["current_job"], "partition": w["current_partition"]}
                       for w in busy]
            self._line(json.dumps({"event": "heartbeat", "seconds": seconds, "gpu_workers": workers}))
            return
        text = ", ".join(f"W{w['worker_id']} {w['current_job']}{_partition(w['current_partition'])}" for w in busy)
        parts = [p["state"] for job in snapshot["pipelines"] for p in job["partitions"]]
        self._line(f"{seconds} s: {text or ('synthesis' if 'synthesizing' in parts else 'waiting')}")

    def _changed(self, job: dict, part: dict) -> None:
        if self.mode == "bars":
            self._bar(job)
        elif self.mode == "json":
            self._line(json.dumps({"event": "partition", "job_id": job["job_id"], "partition": part["index"],
                                   "state": part["state"], "partitions_done": job["partitions_done"],
                                   "total_partitions": job["total_partitions"]}))
        elif part["state"] != "pending":
            took = part.get("synth_ms") if part["state"] == "synth_done" else part.get("gpu_ms")
            text = f" ({took / 1e3:.1f} s)" if took and part["state"] in ("synth_done", "done") else ""
            self._line(f"{job['job_id']}: partition {part['index']} {part['state']}{text}, "
                       f"{job['partitions_done']}/{job['total_partitions']} done")

    def _bar(self, job: dict) -> None:
        from tqdm import tqdm

        bar = self._bars.get(job["job_id"])
        if bar is None:
            bar = self._bars[job["job_id"]] = tqdm(total=job["total_partitions"], desc=job["job_id"], unit="partition",
                                                   file=sys.stderr)
        bar.n = job["partitions_done"]
        bar.set_postfix_str(" ".join(f"P{p['index']}:{p['state']}" for p in job["partitions"]
                                     if p["state"] not in ("pending", "done"))[:60])
        bar.refresh()

    def _line(self, text: str) -> None:
        self._spoken = time.monotonic()
        say(text)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()


class Count:
    """Of work that is counted: call it with (done, total) as often as you like, `close` once."""

    def __init__(self, mode: str, unit: str):
        self.mode, self._unit, self._bar, self._spoken = resolve(mode), unit, None, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if self.mode == "bars":
            if self._bar is None:
                from tqdm import tqdm

                self._bar = tqdm(total=total, unit=self._unit, file=sys.stderr)
            self._bar.n = done
            self._bar.refresh()
        elif self.mode != "none" and time.monotonic() - self._spoken > HEARTBEAT / 2:
            self._spoken = time.monotonic()
            say(json.dumps({"event": "count", "unit": self._unit, "done": done, "total": total}) if self.mode == "json"
                else f"{done} of {total} {self._unit}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _partition(index: int | None) -> str:
    return "" if index is None else f"/P{index}"
