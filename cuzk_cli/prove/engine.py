"""From jobs to proofs.

    prepare (loaders) ─► synthesis pool ─► device queue ─► workers W0…: start ─► finalizers: finish, verify ─► result
                                                             at most two partitions open a worker

A worker does not wait for its proof: it queues a partition's device work, hands the running proof to a finalizer and takes the
next partition. Every assignment of a partition to a worker is one epoch of the tracker, closed by the finalizer.
"""
from __future__ import annotations

import itertools
import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Callable

from ..errors import CuzkError, Exit, fail
from ..faults import as_error
from ..kernels import curve, msm
from ..kernels.devices import platform
from ..params.format import Counts, ParameterFile
from ..params.locate import Located
from . import circuits, groth16, memory, randomness, verifier
from .synthesis import SynthesisPool

OPEN = 2        # partitions that one worker may have open
ATTEMPTS = 2    # a proof that does not verify is made once more


class _Key:
    """What proofs of one circuit share in this process: structure, parameter file, verifying key."""

    def __init__(self, kind: str, sector_size: int, located: Located):
        started = time.perf_counter()
        structure = circuits.structure(kind, sector_size)
        counts = Counts.of(structure)
        self.located = located
        self.file = ParameterFile(located.require_params(counts.params_bytes), counts)
        self.verifier = verifier.prepare(self.file.verifying_key)
        self.proving = groth16.ProvingKey.of(structure, self.file)
        self.load_ms = (time.perf_counter() - started) * 1e3


@dataclass
class Job:
    """One proof: what is asked for, and how far it is."""

    id: str
    kind: str
    sector_size: int
    partitions: list[int]
    witness: Callable[[int], object]            # partition -> vanilla data
    public_inputs: Callable[[int], object]      # partition -> words [n, 4]
    located: Located
    seed: str | None = None                     # of --insecure-randomness
    created: float = field(default_factory=time.perf_counter)
    done: Future = field(default_factory=Future)
    proofs: dict = field(default_factory=dict)
    attempts: dict = field(default_factory=dict)
    timings: dict = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_time(self, name: str, milliseconds: float) -> None:
        with self.lock:
            self.timings[name] = self.timings.get(name, 0.0) + milliseconds


@dataclass(order=True)
class _Item:
    """A synthesised partition that waits for a device."""

    order: tuple
    job: Job = field(compare=False)
    partition: int = field(compare=False)
    assignment: object = field(compare=False)
    queued: float = field(compare=False)
    attempt: int = field(compare=False, default=1)


class Engine:
    """Takes jobs from any thread; `close` stops everything."""

    def __init__(self, tracker, workers: int, warn: Callable[[str], None] = lambda text: None, gpu_workers: int = 1):
        self.tracker, self.pool = tracker, SynthesisPool(workers, warn)
        self.device = ThreadPoolExecutor(1, "device")
        self._finalizers = ThreadPoolExecutor(2, "finalizer")
        self._warmers = ThreadPoolExecutor(2, "warm")
        self._warmed: set[int] = set()
        self._queue: queue.PriorityQueue = queue.PriorityQueue()
        self._ahead = threading.BoundedSemaphore(workers + OPEN)      # synthesised or being synthesised, not yet started
        self._sequence, self._keys, self._lock = itertools.count(), {}, threading.Lock()
        self.closed = False
        tracker.add_workers([(i, 0) for i in range(gpu_workers)])
        tracker.set_limits(workers)
        self._meter = memory.PeakMeter(self.pool.pids)
        for i in range(gpu_workers):
            threading.Thread(target=self._work, args=(i,), name=f"W{i}", daemon=True).start()

    @property
    def peak_memory(self) -> int:
        """Bytes, over all processes, since the engine began."""
        return self._meter.peak

    def warm(self, log_m: int = 0) -> None:
        """Begin to compile, or load from the cache, the curve programs, while input is still being read; with log_m also
        those of a domain's size. The transforms come first on the device and are left to it: their programs exchange data
        between devices."""
        if log_m in self._warmed:
            return
        self._warmed.add(log_m)
        if not log_m:
            self._warmers.submit(msm.warm, curve.g2(platform()))
        self._warmers.submit(msm.warm, curve.g1(platform()), 1 << log_m if log_m else 0)

    def key(self, kind: str, sector_size: int, located: Located) -> _Key:
        """The circuit's key, loaded once. Raises CuzkError (PARAMETERS)."""
        name = (kind, sector_size, str(located.params))
        with self._lock:
            if name not in self._keys:
                self._keys[name] = _Key(kind, sector_size, located)
            return self._keys[name]

    def submit(self, job: Job) -> Future:
        """Synthesise and prove every partition; blocks while too much is waiting. The future gives the job."""
        sequence = next(self._sequence)
        self.tracker.job_started(job.id, job.kind, job.partitions)
        for partition in job.partitions:
            if self.closed or job.done.done():
                break
            self._ahead.acquire()
            future = self.pool.submit(
                job.kind, job.sector_size, job.witness(partition),
                lambda k=partition: self.tracker.partition_synthesis_start(job.id, k))
            future.add_done_callback(lambda f, k=partition: self._synthesised(job, k, (sequence, k), f))
        return job.done

    def _synthesised(self, job: Job, partition: int, order: tuple, future: Future) -> None:
        try:
            found = future.result()
        except CuzkError as error:
            self._ahead.release()
            self.tracker.partition_synthesis_end(job.id, partition, False, None)
            self._fail(job, partition, error)
            return
        job.add_time("synthesis_ms", found.milliseconds)
        self.tracker.partition_synthesis_end(job.id, partition, True, found.milliseconds)
        self._queue.put(_Item(order, job, partition, found.assignment, time.perf_counter()))

    def _work(self, worker: int) -> None:
        slots = threading.BoundedSemaphore(OPEN)
        while True:
            slots.acquire()
            item = self._queue.get()
            if item.attempt == 1:
                self._ahead.release()
            if self.closed:
                return
            if item.job.done.done():            # another partition failed
                slots.release()
                continue
            item.job.add_time("queue_wait_ms", (time.perf_counter() - item.queued) * 1e3)
            epoch = self.tracker.partition_gpu_start(item.job.id, item.partition, worker)
            try:
                key = self.key(item.job.kind, item.job.sector_size, item.job.located)
                running = groth16.gpu_prove_start(key.proving, item.assignment, self.device)
                self._finalizers.submit(self._finish, item, key, running, epoch, slots)
            except Exception as raised:     # a fault of ours too must not leave the job waiting
                self._end(epoch, "failed")
                self._fail(item.job, item.partition, self._error(item, raised))
                slots.release()

    def _finish(self, item: _Item, key: _Key, running, epoch: int, slots) -> None:
        job, k = item.job, item.partition
        outcome, error, again = "failed", None, False
        try:
            job.attempts[k] = item.attempt
            blinding = randomness.blinding() if job.seed is None else randomness.insecure_blinding(job.seed, k)
            try:
                proof = groth16.gpu_prove_finish(running, *blinding).to_bytes()
            except ValueError:      # the device gave a point off its curve: an attempt that failed
                proof = b""
            for name, value in running.timings.items():
                job.add_time(name, value)
            job.add_time("gpu_compute_ms", sum(running.timings.values()))
            started = time.perf_counter()
            good = verifier.verify_proof(key.verifier, job.public_inputs(k), proof)
            job.add_time("verify_ms", (time.perf_counter() - started) * 1e3)
            if good:
                job.proofs[k], outcome = proof, "done"
            elif item.attempt < ATTEMPTS:
                outcome, again = "retry", True
            else:
                error = fail(Exit.VERIFICATION, f"verify partition {k} of {job.id}", None, "a proof that verifies",
                             f"one that does not, {item.attempt} times",
                             "the witness does not satisfy the circuit, the parameters are of another one, "
                             "or the device computes wrongly")
        except Exception as raised:     # a fault of ours or of the device: it must not leave the job waiting
            error = self._error(item, raised)
        finally:
            self._end(epoch, outcome, sum(list(running.timings.values())))      # the device may still add to it
            slots.release()
        if again:
            self._queue.put(_Item(item.order, job, k, item.assignment, time.perf_counter(), item.attempt + 1))
        elif error is not None:
            self._fail(job, k, error)
        else:
            with job.lock:
                complete = len(job.proofs) == len(job.partitions) and not job.done.done()
                if complete:
                    job.done.set_running_or_notify_cancel()
            if complete:
                job.timings["total_ms"] = (time.perf_counter() - job.created) * 1e3
                self.tracker.job_finished(job.id, True)
                job.done.set_result(job)

    def _end(self, epoch: int, outcome: str, milliseconds: float | None = None) -> None:
        self.tracker.partition_gpu_end(epoch, outcome, milliseconds)

    def _error(self, item: _Item, raised: Exception) -> CuzkError:
        """What an exception means; the device's own are told from ours, and after `close` nothing is news."""
        if self.closed and not isinstance(raised, CuzkError):
            return fail(Exit.INTERNAL, "proof stopped")
        operation = f"prove partition {item.partition} of {item.job.id}"
        text = f"{type(raised).__name__}: {raised}"[:300]
        if type(raised).__name__ not in ("JaxRuntimeError", "XlaRuntimeError"):
            return as_error(operation, raised)
        if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
            return fail(Exit.RESOURCES, operation, actual=text, hint="the device has not enough memory")
        return fail(Exit.DEVICE, operation, actual=text)

    def _fail(self, job: Job, partition: int, error: CuzkError) -> None:
        self.tracker.partition_failed(job.id, partition, str(error))
        with job.lock:
            first = not job.done.done()
            if first:
                job.done.set_exception(error)
        if first:
            self.tracker.job_finished(job.id, False, str(error), error.exit.name, int(error.exit))

    def close(self) -> None:
        """Stop at once; what is unfinished is lost."""
        self.closed = True
        self.device.shutdown(wait=False, cancel_futures=True)
        for executor in (self._finalizers, self._warmers):
            executor.shutdown(wait=False, cancel_futures=True)
        self.pool.close()
        self._meter.stop()
