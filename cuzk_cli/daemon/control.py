"""`cuzk.v1.Control`: the calls of this project's own commands."""
from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Callable

from .. import __version__
from ..errors import CuzkError, Exit, fail
from . import requests
from .jobs import Job, Jobs, Outcome
from .proto import control
from .roots import Roots
from .service import seconds


@dataclass(frozen=True)
class Facts:
    """What a client must know to tell whether this daemon would do what it would do itself."""

    parameter_folder: str       # after symlinks
    test_params: bool
    device: str                 # the option


class Control:
    """Each call takes a message and gives one, or raises Refused.

    apart: runs a function on another thread. stop: ends the daemon.
    """

    def __init__(self, jobs: Jobs, tracker, apart: Callable, roots: Roots, facts: Facts, stop: Callable[[], None]):
        self._jobs, self._tracker, self._apart = jobs, tracker, apart
        self._roots, self._facts, self._stop = roots, facts, stop

    async def Hello(self, message):
        return control.HelloResponse(
            version=__version__, pid=os.getpid(), parameter_folder=self._facts.parameter_folder,
            test_params=self._facts.test_params, storage=self._roots.folders, device=self._facts.device,
            draining=self._jobs.draining)

    async def Submit(self, message):
        try:
            asked = await self._apart(requests.from_submit, message, self._roots)
        except CuzkError as error:
            return control.SubmitResponse(problems=json.dumps([p.as_dict() for p in error.problems]))
        before = len(self._jobs.unfinished())
        job, joined = self._jobs.submit(asked, keep=not message.leave)
        return control.SubmitResponse(job_id=job.id, queue_position=0 if joined else before, joined=joined)

    async def Wait(self, message):
        job = self._jobs.find(message.job_id)
        outcome = await self._jobs.wait(job, seconds(message.timeout_ms))
        if outcome is not None:
            return control.WaitResponse(result=json.dumps(result_of(job, outcome)))
        snapshot, id = await self._apart(self._tracker.snapshot), job.shown_id
        progress = {"pipelines": [each for each in snapshot["pipelines"] if each["job_id"] == id],
                    "gpu_workers": [each for each in snapshot["gpu_workers"] if id and each["current_job"] == id]}
        return control.WaitResponse(progress=json.dumps(progress))

    async def Cancel(self, message):
        reason = message.reason[:200] or "cancelled by a client"
        return control.CancelResponse(was_running=await self._jobs.cancel(self._jobs.find(message.job_id), reason))

    async def Jobs(self, message):
        snapshot = await self._apart(self._tracker.snapshot)
        shown = {each["job_id"]: each for each in snapshot["pipelines"]}
        return control.JobsResponse(jobs=json.dumps([_listed(job, shown.get(job.shown_id))
                                                     for job in self._jobs.all()]))

    async def Drain(self, message):
        if message.undo:
            self._jobs.draining = False
            return control.DrainResponse()
        unfinished = len(self._jobs.unfinished())
        finished = self._jobs.spawn(self._drain(message.stop))
        if message.wait:
            await asyncio.wait([finished])
        return control.DrainResponse(unfinished=unfinished)

    async def _drain(self, stop: bool) -> None:
        await self._jobs.drain()
        if stop and self._jobs.draining:
            self._stop()


def result_of(job: Job, outcome: Outcome) -> dict:
    """As the prover gives it; a cancelled job has one too."""
    if outcome.result is not None:
        return outcome.result
    problem = fail(Exit.SIGINT, f"prove {job.label}", None, None, outcome.cancelled).problems[0]
    return {"kind": job.kind, "ok": False, "exit": int(problem.exit), "errors": [problem.as_dict()], "warnings": [],
            "proof": None, "verified": False, "cancelled": True}


def _listed(job: Job, shown: dict | None) -> dict:
    """A line of `cuzk jobs`."""
    running = shown is not None and any(part["state"] != "pending" for part in shown["partitions"])
    state = job.outcome.state if job.outcome else "running" if running else "pending"
    result = job.outcome.result if job.outcome else None
    return {
        "job_id": job.id, "prover_job_id": job.shown_id, "kind": job.kind, "subject": job.label,
        "state": state, "priority": None if job.priority is None else job.priority.name.lower(),
        "deadline_unix": job.deadline,
        "submitted_unix": round(job.submitted, 3), "finished_unix": job.finished and round(job.finished, 3),
        "partitions_done": shown and shown["partitions_done"], "partitions_total": shown and shown["total_partitions"],
        "exit": result and result["exit"], "error": (result and "; ".join(p["message"] for p in result["errors"])
                                                      or job.outcome and job.outcome.cancelled or None)}
