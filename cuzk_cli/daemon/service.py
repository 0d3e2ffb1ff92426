"""`cuzk.v1.ProvingEngine`: the calls that curio makes."""
from __future__ import annotations

import asyncio
import time
from typing import Callable, NamedTuple

import grpc

from ..errors import CuzkError
from ..protocol.table import Size
from ..status.prometheus import prometheus
from . import requests
from .jobs import Job, Jobs, Outcome, Refused
from .proto import proving

_LONGEST_ERROR = 4000               # characters
_LONGEST_WAIT = 30 * 86400.0        # seconds; more counts as no limit
_STATUS = {"done": proving.AwaitProofResponse.COMPLETED, "failed": proving.AwaitProofResponse.FAILED,
           "cancelled": proving.AwaitProofResponse.CANCELLED}
_TIMES = ("queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "total_ms")


class Device(NamedTuple):
    """What is known of a device; 0 for memory that cannot be asked."""

    name: str
    total: int      # bytes
    free: int


def seconds(timeout_ms: int) -> float | None:
    """None for no limit."""
    return None if timeout_ms == 0 or timeout_ms / 1e3 > _LONGEST_WAIT else timeout_ms / 1e3


def unfit(error: CuzkError) -> Refused:
    """A request that is refused as it is."""
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:_LONGEST_ERROR])


class ProvingEngine:
    """Each call takes a message and gives one, or raises Refused.

    apart: runs a function on another thread. devices: those of this process, by ordinal; called on another thread.
    """

    def __init__(self, jobs: Jobs, prover, tracker, apart: Callable, devices: Callable[[], dict[int, Device]],
                 memory_limit: Callable[[], int]):
        self._jobs, self._prover, self._tracker, self._apart = jobs, prover, tracker, apart
        self._devices, self._memory_limit = devices, memory_limit
        self._began = time.monotonic()

    # ---- jobs
    async def _submit(self, message, keep: bool) -> tuple[Job, int]:
        try:
            asked = await self._apart(requests.from_message, message)
        except CuzkError as error:
            raise unfit(error) from None
        before = len(self._jobs.unfinished())
        job, joined = self._jobs.submit(asked, keep)
        return job, 0 if joined else before

    async def SubmitProof(self, message):
        job, position = await self._submit(message, keep=True)
        return proving.SubmitProofResponse(job_id=job.id, queue_position=position)

    async def AwaitProof(self, message):
        job = self._jobs.find(message.job_id)
        return response(job.id, await self._jobs.wait(job, seconds(message.timeout_ms)))

    async def Prove(self, message):
        if not message.HasField("submit"):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "no field submit")
        job, _ = await self._submit(message.submit, keep=False)
        return proving.ProveResponse(result=response(job.id, await self._jobs.wait(job)))

    async def CancelProof(self, message):
        cancelled = await self._jobs.cancel(self._jobs.find(message.job_id), "cancelled by a client")
        return proving.CancelProofResponse(was_running=cancelled)

    # ---- what is going on
    async def GetStatus(self, message):
        snapshot, loaded, devices, limit = await asyncio.gather(*map(self._apart, (
            self._tracker.snapshot, self._prover.loaded, self._devices, self._memory_limit)))
        by_prover = {job.shown_id: job for job in self._jobs.unfinished() if job.shown_id is not None}
        running = {job["job_id"] for job in snapshot["pipelines"] if not job["finished"]
                   and any(part["state"] != "pending" for part in job["partitions"])}
        gpus = [self._worker(worker, by_prover, devices) for worker in snapshot["gpu_workers"]]
        counters = snapshot["counters"]
        return proving.GetStatusResponse(
            gpus=gpus, loaded_srs=[self._parameters(*each) for each in loaded],
            queues=[self._queue(kind, name, running) for kind, name in requests.QUEUES.items()],
            total_proofs_completed=counters["total_completed"], total_proofs_failed=counters["total_failed"],
            uptime_seconds=int(time.monotonic() - self._began),
            pinned_memory_bytes=sum(size for *_, size in loaded), pinned_memory_limit_bytes=limit)

    def _worker(self, worker: dict, by_prover: dict[str, Job], devices: dict[int, Device]):
        ordinal, id = worker["gpu_ordinal"], worker["current_job"]
        device = devices.get(ordinal, Device("", 0, 0))
        job = by_prover.get(id)
        return proving.GPUStatus(
            ordinal=ordinal, name=device.name, vram_total_bytes=device.total, vram_free_bytes=device.free,
            current_job_id=job.id if job else id or "", current_proof_kind=requests.QUEUES[job.kind] if job else "")

    def _parameters(self, kind: str, size: Size, path, held: int):
        users = sum(job.kind == kind for job in self._jobs.unfinished())
        return proving.SRSStatus(circuit_id=requests.circuit_id(kind, size), tier=proving.SRSStatus.HOT,
                                 size_bytes=held, ref_count=users)

    def _queue(self, kind: str, name: str, running: set[str]):
        jobs = [job for job in self._jobs.unfinished() if job.kind == kind]
        busy = sum(job.shown_id in running for job in jobs)
        return proving.QueueStatus(proof_kind=name, pending=len(jobs) - busy, in_progress=busy)

    async def GetMetrics(self, message):
        snapshot = await self._apart(self._tracker.snapshot)
        return proving.GetMetricsResponse(prometheus_text=prometheus({**snapshot, "ok": True, "age_seconds": 0.0}))

    # ---- parameters
    async def PreloadSRS(self, message):
        kind, size = _circuit(message.circuit_id)
        already = await self._held(kind, size) is not None
        try:
            milliseconds = await self._apart(self._prover.preload, kind, size)
        except CuzkError as error:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(error)[:_LONGEST_ERROR]) from None
        return proving.PreloadSrsResponse(already_loaded=already, load_time_ms=0 if already else round(milliseconds))

    async def EvictSRS(self, message):
        kind, size = _circuit(message.circuit_id)
        held = await self._held(kind, size)
        if held is None:
            return proving.EvictSrsResponse(was_loaded=False)
        if any(job.kind == kind for job in self._jobs.unfinished()):
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION,
                          f"{message.circuit_id}: jobs that use it are not finished")
        gone = await self._apart(self._prover.evict, kind, size)
        return proving.EvictSrsResponse(was_loaded=True, freed_bytes=held if gone else 0)

    async def _held(self, kind: str, size: Size) -> int | None:
        """Bytes of a circuit's parameters that are loaded."""
        loaded = await self._apart(self._prover.loaded)
        return next((held for k, s, _, held in loaded if (k, s) == (kind, size)), None)


def _circuit(text: str) -> tuple[str, Size]:
    try:
        return requests.parse_circuit(text)
    except CuzkError as error:
        raise unfit(error) from None


def response(job_id: str, outcome: Outcome | None):
    """AwaitProofResponse. outcome None: the time is over."""
    if outcome is None:
        return proving.AwaitProofResponse(job_id=job_id, status=proving.AwaitProofResponse.TIMEOUT,
                                          error_message="the job is not finished; it goes on")
    if outcome.result is None:
        return proving.AwaitProofResponse(job_id=job_id, status=_STATUS["cancelled"], error_message=outcome.cancelled)
    result = outcome.result
    times = {name: round((result.get("timings") or {}).get(name) or 0) for name in _TIMES}
    return proving.AwaitProofResponse(
        job_id=job_id, status=_STATUS[outcome.state], proof=bytes.fromhex(result["proof"] or ""),
        error_message="; ".join(problem["message"] for problem in result["errors"])[:_LONGEST_ERROR], **times)
