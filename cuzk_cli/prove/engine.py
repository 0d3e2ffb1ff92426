"""From jobs to proofs.

    submit ─► synthesis pool ─► ready ─► workers W0…: start ─► finalizers: finish, verify ─► result
              at most so many ahead       at most two partitions open a worker

Everything that waits is taken in the order of `urgency`. A worker does not wait for its proof: it queues a partition's
device work, hands the running proof to a finalizer and takes the next partition. Every assignment to a worker is one
epoch of the tracker, closed by the finalizer; a monolithic job's partitions are one assignment. What is more urgent than
all that a worker has open is taken although two are open, and its device work goes between two pieces of theirs.
"""
from __future__ import annotations

import heapq
import itertools
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Callable

from ..errors import CuzkError, Exit, fail
from ..faults import as_error
from ..kernels import curve, msm
from ..kernels.devices import platform, turn_to
from ..params.format import Counts, ParameterFile
from ..params.locate import Located
from . import circuits, groth16, memory, randomness, verifier
from .device import Device, Lane
from .gpulock import GpuLocks
from .synthesis import SynthesisPool
from .urgency import Order, Urgency

OPEN = 2            # assignments that one worker may have open
URGENT_OPEN = 2     # and more of them for what is more urgent than these
ATTEMPTS = 2        # a proof that does not verify, or whose device failed, is made once more


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
    """One proof: what is asked for, and how far it is. `proofs` may hold partitions that are proved already."""

    id: str
    kind: str
    sector_size: int
    partitions: list[int]
    witness: Callable[[int], object]            # partition -> vanilla data
    public_inputs: Callable[[int], object]      # partition -> words [n, 4]
    located: Located
    seed: str | None = None                     # of --insecure-randomness
    order: Order | None = None                  # among others; None for that of its arrival at the engine
    monolithic: bool = False                    # all partitions are one assignment
    on_device_error: str = "retry"              # once more there; "fail"; or "cpu": once more, then there
    ahead: int | None = None                    # partitions ahead of the workers that memory allows, None for any
    on_partition: Callable[[int, bytes], None] = lambda k, proof: None     # a verified proof, on any thread
    created: float = field(default_factory=time.perf_counter)
    done: Future = field(default_factory=Future)
    proofs: dict = field(default_factory=dict)
    attempts: dict = field(default_factory=dict)
    timings: dict = field(default_factory=dict)
    assignments: dict = field(default_factory=dict)     # of a monolithic job, until all are there
    wanted: bool = True                                 # until it ends
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> bool:
        """True for whoever ends it, which is once."""
        with self.lock:
            first, self.wanted = self.wanted, False
        return first

    def add_time(self, name: str, milliseconds: float) -> None:
        with self.lock:
            self.timings[name] = self.timings.get(name, 0.0) + milliseconds


@dataclass(order=True)
class _Pending:
    """A partition to be synthesised."""

    order: Order
    job: Job = field(compare=False)
    partition: int = field(compare=False)


@dataclass(order=True)
class _Item:
    """Synthesised partitions, one or, of a monolithic job, all, that wait for a worker."""

    order: Order
    job: Job = field(compare=False)
    assignments: dict = field(compare=False)        # partition -> assignment
    queued: float = field(compare=False)
    attempt: int = field(compare=False, default=1)
    frugal: bool = field(compare=False, default=False)      # after the device's memory was out
    platform: str = field(compare=False, default="")        # of the devices that it was last given to


class Engine:
    """Takes jobs from any thread; `close` stops everything."""

    def __init__(self, tracker, workers: int, warn: Callable[[str], None] = lambda text: None, gpu_workers: int = 1,
                 ahead: int | None = None):
        """ahead: partitions that may be synthesised, or under synthesis, before a worker has room for them."""
        self.tracker, self.pool, self._warn = tracker, SynthesisPool(workers, warn), warn
        self.gpus = GpuLocks.of_this_process(warn)
        self.device, self._beside = Device(), Device("beside")
        self._finalizers = ThreadPoolExecutor((OPEN + URGENT_OPEN) * gpu_workers, "finalizer")
        self._warmers = ThreadPoolExecutor(2, "warm")
        self._warmed: set[int] = set()
        self._changed = threading.Condition()
        self._pending: list[_Pending] = []
        self._synthesising: list[Order] = []
        self._ready: list[_Item] = []
        self._open: list[list[Order]] = [[] for _ in range(gpu_workers)]
        self._workers, self._ahead = workers, ahead if ahead is not None else workers + OPEN
        self._sequence, self._keys, self._lock = itertools.count(), {}, threading.Lock()
        self.closed = False
        tracker.add_workers([(i, 0) for i in range(gpu_workers)])
        tracker.set_limits(workers)
        self._meter = memory.PeakMeter(self.pool.pids)
        threading.Thread(target=self._dispatch, name="dispatch", daemon=True).start()
        for i in range(gpu_workers):
            threading.Thread(target=self._work, args=(i,), name=f"W{i}", daemon=True).start()

    @property
    def peak_memory(self) -> int:
        """Bytes, over all processes, since the engine began."""
        return self._meter.peak

    # ---- what jobs of one circuit share
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

    def loaded(self) -> list[tuple[str, int, _Key]]:
        """The keys that are held: (kind, sector size, key)."""
        with self._lock:
            return [(kind, size, key) for (kind, size, _), key in self._keys.items()]

    def evict(self, kind: str, sector_size: int) -> bool:
        """Forget a key; proofs that run with it keep it until they end. False where none is held."""
        with self._lock:
            names = [name for name in self._keys if name[:2] == (kind, sector_size)]
            for name in names:
                del self._keys[name]
            return bool(names)

    # ---- jobs
    def submit(self, job: Job) -> Future:
        """Synthesise and prove every partition that is not proved yet. The future gives the job; it raises CuzkError."""
        order = job.order or Order.of(Urgency.NORMAL, next(self._sequence))
        self.tracker.job_started(job.id, job.kind, job.partitions)
        for k in job.proofs:
            self.tracker.partition_resumed(job.id, k)
        todo = [k for k in job.partitions if k not in job.proofs]
        if not todo:
            self._complete(job)
            return job.done
        with self._changed:
            for k in todo:
                heapq.heappush(self._pending, _Pending(order.at(k), job, k))
            self._changed.notify_all()
        return job.done

    def cancel(self, job: Job, error: CuzkError) -> bool:
        """End a job with `error`; what of it is queued is dropped, what runs ends after its piece. False once it is done."""
        return self._end_job(job, error)

    # ---- synthesis
    def _dispatch(self) -> None:
        """Feed the synthesis pool."""
        while True:
            with self._changed:
                while not self.closed and (taken := self._synthesisable()) is None:
                    self._changed.wait()
                if self.closed:
                    return
                self._synthesising.append(taken.order)
            self._synthesise(taken)

    def _synthesisable(self) -> _Pending | None:
        """The partition to synthesise next, if there is room for one more ahead of the workers."""
        while self._pending and not self._pending[0].job.wanted:
            heapq.heappop(self._pending)
        if not self._pending or len(self._synthesising) >= self._workers:
            return None
        order = self._pending[0].order
        ahead = [*self._synthesising, *(item.order for item in self._ready)]
        limit = min(self._ahead, self._pending[0].job.ahead or self._ahead)
        if sum(not order.interrupts(other) for other in ahead) >= limit:
            return None
        return heapq.heappop(self._pending)

    def _synthesise(self, taken: _Pending) -> None:
        job, k = taken.job, taken.partition
        try:
            future = self.pool.submit(job.kind, job.sector_size, job.witness(k),
                                      lambda: self.tracker.partition_synthesis_start(job.id, k))
        except Exception as raised:     # a fault of ours must not end the dispatcher
            future = Future()
            future.set_exception(as_error(f"synthesise partition {k} of {job.id}", raised))
        future.add_done_callback(lambda f: self._synthesised(taken, f))

    def _synthesised(self, taken: _Pending, future: Future) -> None:
        job, k = taken.job, taken.partition
        found, error = None, None
        try:
            found = future.result()
        except CuzkError as raised:
            error = raised
        if found is not None:
            job.add_time("synthesis_ms", found.milliseconds)
        self.tracker.partition_synthesis_end(job.id, k, found is not None, found and found.milliseconds)
        with self._changed:
            self._synthesising.remove(taken.order)
            if found is not None:
                self._queue(taken.order, job, k, found.assignment)
            self._changed.notify_all()
        if error is not None:
            self._fail(job, [k], error)

    def _queue(self, order: Order, job: Job, k: int, assignment) -> None:
        ready = {k: assignment}
        if job.monolithic:
            job.assignments[k] = assignment
            if len(job.assignments) + len(job.proofs) < len(job.partitions):
                return
            ready, job.assignments = job.assignments, {}
        heapq.heappush(self._ready, _Item(order, job, ready, time.perf_counter()))

    # ---- devices
    def _work(self, worker: int) -> None:
        while True:
            with self._changed:
                while not self.closed and (item := self._startable(worker)) is None:
                    self._changed.wait()
                if self.closed:
                    return
                self._open[worker].append(item.order)
                self._changed.notify_all()      # there is room ahead
            self._start(worker, item)

    def _startable(self, worker: int) -> _Item | None:
        """The item that the worker takes next, if it may take one."""
        while self._ready and not self._ready[0].job.wanted:
            heapq.heappop(self._ready)
        if not self._ready:
            return None
        order, held = self._ready[0].order, self._open[worker]
        urgent = len(held) < OPEN + URGENT_OPEN and all(order.interrupts(other) for other in held)
        return heapq.heappop(self._ready) if len(held) < OPEN or urgent else None

    def _start(self, worker: int, item: _Item) -> None:
        job = item.job
        job.add_time("queue_wait_ms", (time.perf_counter() - item.queued) * 1e3)
        partitions = sorted(item.assignments)
        try:
            if not self._hold_gpus(job):
                self._close(worker, item, held=False)
                return
        except CuzkError as error:
            self._fail(job, partitions, error)
            self._close(worker, item, held=False)
            return
        item.platform = platform()
        epoch = self.tracker.partition_gpu_start(job.id, None if job.monolithic else partitions[0], worker, partitions)
        try:
            key = self.key(job.kind, job.sector_size, job.located)
            lanes = [Lane(d, item.order, lambda: job.wanted and not self.closed) for d in (self.device, self._beside)]
            running = {k: groth16.gpu_prove_start(key.proving, item.assignments[k], *lanes, item.frugal)
                       for k in partitions}
            self._finalizers.submit(self._finish, worker, item, key, running, epoch)
        except Exception as raised:     # a fault of ours too must not leave the job waiting
            self.tracker.partition_gpu_end(epoch, "failed")
            self._fail(job, partitions, self._error(item, partitions, raised))
            self._close(worker, item)

    def _hold_gpus(self, job: Job) -> bool:
        """Wait for other processes' use of the GPUs to end; False where the job ends before. Raises CuzkError (DEVICE)."""
        waited = False

        def waiting(gpu: str, owner: int) -> None:
            nonlocal waited
            if not waited:
                self._warn(f"{job.id}: waiting for {gpu}, which process {owner or 'unknown'} uses")
                self.tracker.waiting(job.id, {"kind": "device", "need": gpu, "have": f"process {owner or 'unknown'}"})
            waited = True

        held = self.gpus.hold(lambda: job.wanted and not self.closed, waiting)
        if waited:
            self.tracker.waiting(job.id, None)
        return held

    def _close(self, worker: int, item: _Item, again: _Item | None = None, held: bool = True) -> None:
        """The worker has room again, and the GPUs, where it held them, one user less; `again` is to be proved once more."""
        if held:
            self.gpus.let_go()
        with self._changed:
            self._open[worker].remove(item.order)
            if again:
                heapq.heappush(self._ready, again)
            self._changed.notify_all()

    def _finish(self, worker: int, item: _Item, key: _Key, running: dict, epoch: int) -> None:
        """Wait for an assignment's proofs, verify them, close its epoch."""
        job, bad, failures = item.job, [], {}
        for k, started in running.items():
            try:
                if not self._prove(job, k, key, started, item.attempt):
                    bad.append(k)
            except Exception as raised:     # a fault of ours or of the device: it must not leave the job waiting
                failures[k] = raised
        error, exhausted, repeat = None, False, False
        if failures:
            first = next(iter(failures.values()))
            error = self._error(item, list(failures), first)
            exhausted = error.exit == Exit.RESOURCES and self._is_of_device(first)
            repeat = exhausted and not item.frugal or error.exit == Exit.DEVICE and self._may_repeat(item, error)
            if repeat:
                bad, failures = [*bad, *failures], {}
        if bad and item.attempt >= ATTEMPTS and not failures and not repeat:
            error = error or fail(
                Exit.VERIFICATION, f"verify partition {', '.join(map(str, bad))} of {job.id}", None,
                "a proof that verifies", f"one that does not, {item.attempt} times",
                "the witness does not satisfy the circuit, the parameters are of another one or hold points outside the "
                "subgroup, or the device computes wrongly")
            failures = dict.fromkeys(bad)
        again = None
        if bad and not failures and job.wanted:
            again = _Item(item.order, job, {k: item.assignments[k] for k in bad}, time.perf_counter(), item.attempt + 1,
                          item.frugal or exhausted)
        outcome = "failed" if failures or (bad and not again) else "retry" if again else "done"
        self.tracker.partition_gpu_end(
            epoch, outcome, sum(r.device_ms for r in running.values()),
            {k: "done" for k in running if k in job.proofs})
        self._close(worker, item, again)
        if failures:
            self._fail(job, list(failures), error)
        elif not again and len(job.proofs) == len(job.partitions):
            self._complete(job)

    def _prove(self, job: Job, k: int, key: _Key, running, attempt: int) -> bool:
        """Finish and verify one proof: does it hold? Raises what the device raised."""
        job.attempts[k] = attempt
        blinding = randomness.blinding() if job.seed is None else randomness.insecure_blinding(job.seed, k)
        try:
            proof = groth16.gpu_prove_finish(running, *blinding).to_bytes()
        except ValueError:      # the device gave a point off its curve: an attempt that failed
            proof = b""
        for name, value in list(running.timings.items()):
            job.add_time(name, value)
        job.add_time("gpu_compute_ms", running.device_ms)
        started = time.perf_counter()
        good = verifier.verify_proof(key.verifier, job.public_inputs(k), proof)
        job.add_time("verify_ms", (time.perf_counter() - started) * 1e3)
        if good:
            job.on_partition(k, proof)      # before the job can end
            job.proofs[k] = proof
        return good

    # ---- ends
    def _complete(self, job: Job) -> None:
        if job.end():
            job.timings["total_ms"] = (time.perf_counter() - job.created) * 1e3
            self.tracker.job_finished(job.id, True)
            job.done.set_result(job)

    def _error(self, item: _Item, partitions: list[int], raised: Exception) -> CuzkError:
        """What an exception means; the device's own are told from ours, and after an end nothing is news."""
        if isinstance(raised, CancelledError) or self.closed and not isinstance(raised, CuzkError):
            return fail(Exit.INTERNAL, "proof stopped")
        operation = f"prove partition {', '.join(map(str, partitions))} of {item.job.id}"
        text = f"{type(raised).__name__}: {raised}"[:300]
        if not self._is_of_device(raised):
            return as_error(operation, raised)
        if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
            return fail(Exit.RESOURCES, operation, actual=text, hint="the device has not enough memory")
        return fail(Exit.DEVICE, operation, actual=text)

    @staticmethod
    def _is_of_device(raised: Exception) -> bool:
        return type(raised).__name__ in ("JaxRuntimeError", "XlaRuntimeError")

    def _may_repeat(self, item: _Item, error: CuzkError) -> bool:
        """May what a device failed at be started again? From the second time on only on the CPU, where the user said so."""
        policy = item.job.on_device_error
        if policy != "fail" and item.attempt < ATTEMPTS:
            return True
        if policy != "cpu" or item.platform == "cpu":
            return False
        self._warn(f"{error}; proving goes on, slower, on the CPU")
        turn_to("cpu")
        return True

    def _fail(self, job: Job, partitions: list[int], error: CuzkError) -> None:
        for k in partitions:
            self.tracker.partition_failed(job.id, k, str(error))
        self._end_job(job, error)

    def _end_job(self, job: Job, error: CuzkError) -> bool:
        first = job.end()
        if first:
            self.tracker.job_finished(job.id, False, str(error), error.exit.name, int(error.exit))
            job.done.set_exception(error)
            with self._changed:
                self._changed.notify_all()
        return first

    def close(self) -> None:
        """Stop at once; what is unfinished is lost."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self.device.close()
        self._beside.close()
        for executor in (self._finalizers, self._warmers):
            executor.shutdown(wait=False, cancel_futures=True)
        self.gpus.close()
        self.pool.close()
        self._meter.stop()
