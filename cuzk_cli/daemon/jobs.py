"""The jobs of a daemon: who asked for what, what becomes of it, and what is remembered.

    request_id ─► Job ─► prover's Ticket ─► result, kept for those who ask later

The journal keeps a job's proofs until its result was fetched, so that a daemon that is killed loses none.
Everything here happens in the event loop's thread, so that there are no locks; the prover is called on another thread.
That two jobs which prove the same share the work is the prover's business.
"""
from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

import grpc

from ..faults import as_error
from ..prove.urgency import Urgency
from .requests import Asked

KEPT = 4096                 # finished jobs that are remembered
UNFINISHED = 4096           # jobs at a time
HELD = 4 << 30              # bytes of input of unfinished work
ORPHAN_SECONDS = 600.0      # of `Prove`: so long may all its callers be gone before it is cancelled


class Refused(Exception):
    """A call is refused: a gRPC status and one line."""

    def __init__(self, code: grpc.StatusCode, text: str):
        self.code, self.text = code, text
        super().__init__(text)


class Outcome(NamedTuple):
    """How a job ended: a result, or the reason of its cancelling."""

    result: dict | None
    cancelled: str | None = None

    @property
    def state(self) -> str:
        if self.result is None:
            return "cancelled"
        return "done" if self.result["ok"] else "failed"


@dataclass(eq=False)
class Job:
    """One client's wish."""

    id: str
    content: bytes
    held: int                           # bytes of input, as long as it is not finished
    kind: str
    label: str
    priority: Urgency | None
    deadline: float | None
    done: asyncio.Future                # of an Outcome; an exception when the daemon stops first
    submitted: float = field(default_factory=time.time)
    finished: float | None = None
    ticket: object | None = None        # from the prover's taking it to its result: it holds the input
    prover_id: str | None = None        # what the status calls it, when it is finished
    result: dict | None = None          # that came while it was being cancelled
    delivered: Callable[[], None] | None = None     # to be called, once, when its result was fetched
    cancelling: bool = False
    waiters: int = 0
    kept: bool = False                  # goes on though nobody waits

    @property
    def outcome(self) -> Outcome | None:
        return self.done.result() if self.done.done() and self.done.exception() is None else None

    @property
    def shown_id(self) -> str | None:
        """What the status calls it, where that is known."""
        return self.prover_id if self.ticket is None else self.ticket.job_id


class Jobs:
    """The table. prover: a prove.prover.Prover, called on `executor`. tell: gets a line about each job that ends."""

    def __init__(self, prover, executor: Executor, tell: Callable[[str], None] = lambda text: None):
        self._prover, self._executor, self._tell = prover, executor, tell
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[str, Job] = {}         # by id; finished ones in the order in which they ended
        self._held = self._finished = 0
        self._tasks: set[asyncio.Task] = set()  # the loop itself holds them weakly
        self.draining = False

    def spawn(self, coroutine) -> asyncio.Task:
        """A task that goes on by itself."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- asking
    def submit(self, asked: Asked, keep: bool) -> tuple[Job, bool]:
        """The job, and whether it is one that was there. Raises Refused.

        keep: it goes on though nobody waits for it. The same id with the same content gives the job that runs or has
        succeeded; with other content it is refused as long as the first runs.
        """
        job = self._jobs.get(asked.id) if asked.id else None
        if job is not None and self._joins(job, asked):
            job.kept |= keep
            return job, True
        if self.draining:
            raise Refused(grpc.StatusCode.UNAVAILABLE, "the daemon takes no new jobs: it is being drained")
        unfinished = len(self._jobs) - self._finished
        if unfinished >= UNFINISHED or self._held + asked.held > HELD:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{unfinished} jobs with {self._held} bytes of input are "
                                                              "not finished: try again later")
        self._forget(asked.id)
        job = Job(asked.id or f"job-{uuid.uuid4().hex[:16]}", asked.content, asked.held, asked.request.kind,
                  asked.request.label, asked.priority, asked.deadline, self._loop.create_future(), kept=keep)
        self._jobs[job.id] = job
        self._held += job.held
        self.spawn(self._start(job, asked))
        return job, False

    def _joins(self, job: Job, asked: Asked) -> bool:
        """Is a job with this id what is asked for? A failed or cancelled one is tried anew. Raises Refused."""
        same = job.content == asked.content
        if not job.done.done() and not same:
            raise Refused(grpc.StatusCode.ALREADY_EXISTS,
                          f"request_id {job.id!r} is of another request, which is not finished")
        return same and (not job.done.done() or job.outcome is not None and job.outcome.state == "done")

    async def _start(self, job: Job, asked: Asked) -> None:
        if job.done.done():             # cancelled before it began
            return
        call = lambda: self._prover.submit(asked.request, asked.priority, asked.deadline, held=True)
        try:
            ticket = job.ticket = await self._loop.run_in_executor(self._executor, call)
        except Exception as error:      # the prover refuses, or a fault of ours: the job's result says so
            self._finish(job, Outcome(_failure(job, error)))
            return
        ticket.result.add_done_callback(lambda future: self._from_thread(self._settle, job, ticket))
        if job.done.done():
            await self._loop.run_in_executor(self._executor, ticket.cancel, "cancelled")

    def _from_thread(self, function, *arguments) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:        # the loop is closed: the daemon has ended, and has told everybody
            pass

    def _settle(self, job: Job, ticket) -> None:
        """The prover has a result."""
        job.prover_id, job.ticket, job.delivered = ticket.job_id, None, ticket.delivered
        try:
            result = ticket.result.result()
        except BaseException as error:      # also a cancelled future; no job may be left without an answer
            result = _failure(job, error)
        if job.cancelling:
            job.result = result
        else:
            self._finish(job, Outcome(result))

    def _finish(self, job: Job, outcome: Outcome) -> None:
        if job.done.done():             # cancelled, or the daemon has stopped
            return
        job.finished = time.time()
        job.done.set_result(outcome)
        why = outcome.cancelled or "; ".join(p["message"] for p in outcome.result["errors"])
        self._tell(f"{job.id} ({job.label}): {outcome.state} after {job.finished - job.submitted:.1f} s"
                   + (f": {why}" if why else ""))
        self._held -= job.held
        self._finished += 1
        self._jobs[job.id] = self._jobs.pop(job.id)     # to the end
        while self._finished > KEPT:
            self._forget(next(id for id, old in self._jobs.items() if old.done.done()))

    def _forget(self, id: str) -> None:
        """A finished job, if there is one of this id."""
        job = self._jobs.pop(id, None)
        if job is not None:
            self._finished -= 1
            self._deliver(job)

    def _deliver(self, job: Job) -> None:
        """Its result was fetched, or will not be: the journal need not keep it."""
        delivered, job.delivered = job.delivered, None
        if delivered is not None and job.outcome is not None and job.outcome.state == "done":
            try:
                self._loop.run_in_executor(self._executor, delivered)
            except RuntimeError:        # the daemon ends: kept for the next one
                pass

    # ---- looking
    def find(self, id: str) -> Job:
        """By the client's id, or by the one that the status shows. Raises Refused."""
        job = self._jobs.get(id) or next((job for job in self._jobs.values() if id and job.shown_id == id), None)
        if job is None:
            raise Refused(grpc.StatusCode.NOT_FOUND,
                          f"no job {id[:100]!r}: never submitted, or finished before the last {KEPT}")
        return job

    def all(self) -> list[Job]:
        """Oldest first."""
        return sorted(self._jobs.values(), key=lambda job: job.submitted)

    def unfinished(self) -> list[Job]:
        return [job for job in self._jobs.values() if not job.done.done()]

    # ---- waiting
    async def wait(self, job: Job, seconds: float | None = None) -> Outcome | None:
        """None when the time is over first. Raises Refused when the daemon stops first."""
        job.waiters += 1
        try:
            await asyncio.wait([job.done], timeout=seconds)
        finally:
            job.waiters -= 1
            if not (job.kept or job.waiters or job.done.done()):
                self._loop.call_later(ORPHAN_SECONDS, self._orphan, job)
        if not job.done.done():
            return None
        outcome = job.done.result()
        self._deliver(job)
        return outcome

    def _orphan(self, job: Job) -> None:
        if not (job.kept or job.waiters or job.done.done()):
            self.spawn(self.cancel(job, f"nobody has waited for it for {ORPHAN_SECONDS:.0f} s"))

    # ---- ending
    async def cancel(self, job: Job, reason: str) -> bool:
        """Was it unfinished, and is cancelled now?"""
        if job.done.done() or job.cancelling:
            return False
        job.cancelling = True
        stopped = job.ticket is None or await self._loop.run_in_executor(self._executor, job.ticket.cancel, reason)
        job.cancelling = False
        if stopped:
            self._finish(job, Outcome(None, reason))
        elif job.result is not None:    # it ended first
            self._finish(job, Outcome(job.result))
        return stopped

    async def drain(self) -> None:
        """Take no new jobs; returns when none is left."""
        self.draining = True
        while waiting := [job.done for job in self.unfinished()]:
            await asyncio.wait(waiting)

    def stop(self) -> int:
        """Tell everybody who waits that the daemon ends; the number of unfinished jobs."""
        self.draining = True
        lost = self.unfinished()
        for job in lost:
            job.done.set_exception(Refused(grpc.StatusCode.UNAVAILABLE,
                                           "the daemon stops; submit again when it is back"))
            job.done.exception()        # seen, though nobody may wait
        return len(lost)


def _failure(job: Job, error: BaseException) -> dict:
    """A result where the prover gave none."""
    known = as_error(f"prove {job.label}", error)
    return {"kind": job.kind, "ok": False, "exit": int(known.exit), "errors": [p.as_dict() for p in known.problems],
            "warnings": [], "proof": None, "verified": False}
