"""Progress on standard error, read from the tracker: bars on a terminal, plain lines with a heartbeat elsewhere."""
from __future__ import annotations

import json
import sys
import time

from .streams import say

HEARTBEAT = 10.0        # seconds without a line
MODES = ("auto", "plain", "json", "none")


class Progress:
    """Call `update` often with a tracker's snapshot, `close` once."""

    def __init__(self, mode: str):
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.mode = ("bars" if terminal else "plain") if mode == "auto" else mode
        self._states: dict = {}
        self._bars: dict = {}
        self._spoken = self._started = time.monotonic()

    def update(self, snapshot: dict) -> None:
        if self.mode == "none":
            return
        for job in snapshot["pipelines"]:
            for part in job["partitions"]:
                key = job["job_id"], part["index"]
                if self._states.get(key) != part["state"]:
                    self._states[key] = part["state"]
                    self._changed(job, part)
        if self.mode == "plain" and time.monotonic() - self._spoken > HEARTBEAT:
            busy = [w for w in snapshot["gpu_workers"] if w["state"] == "proving"]
            text = ", ".join(f"W{w['worker_id']} {w['current_job']}/P{w['current_partition']}" for w in busy) or "waiting"
            self._line(f"{time.monotonic() - self._started:.0f} s: {text}")

    def _changed(self, job: dict, part: dict) -> None:
        if self.mode == "bars":
            self._bar(job)
        elif self.mode == "json":
            say(json.dumps({"job_id": job["job_id"], "partition": part["index"], "state": part["state"]}))
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
