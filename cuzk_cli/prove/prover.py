"""A running prover: requests go in from any thread, results come out, and everything between stays warm.

    submit ─► loading: read, check, vanilla proofs ─► engine: synthesis, device, verification ─► deliver ─► result
              a few at a time, in order of urgency

A job that another process proves is waited for or refused; one that this process proves already is joined. Finished
partitions are kept in the journal until the result is delivered, or until whoever submitted it says that it is.
"""
from __future__ import annotations

import heapq
import itertools
import os
import platform
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable

from .. import __version__
from ..errors import CuzkError, Exit, Problem, fail
from ..faults import as_error
from ..params.format import Counts
from ..params.locate import TEST_SEED, network_accepts_key
from ..protocol.table import SIZES, Size
from ..sectors import watch
from ..status import Tracker
from . import circuits, memory, verifier
from .encoding import PROOF_BYTES
from .joblock import JobLock
from .journal import Journal
from .kind import Prepared, Request, job_id, network_takes
from .options import Options
from .platform import start_device
from .urgency import Order, Urgency, of_kind

LOADING = 2             # requests that are read at a time, besides those that are more urgent
LOADED = 16             # and jobs that may be read and not done
UNITS = ("queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "verify_ms", "total_ms")

Verifies = Callable[[bytes], bool]
Existing = Callable[[Prepared, Verifies], bytes | None]


def failure(request: Request, error: CuzkError, job: str | None = None) -> dict:
    """The result of a request that failed."""
    found = {"kind": request.kind, **request.subject(), "ok": False, "exit": int(error.exit),
             "errors": [p.as_dict() for p in error.problems], "warnings": [], "proof": None, "verified": False}
    return found if job is None else {**found, "job_id": job}


class Ticket:
    """One request: `result` gives a dictionary in any case; `job_id` is known once its input is read."""

    def __init__(self, request: Request, order: Order, existing: Existing, deliver: Callable, held: bool = False):
        self.request, self.order = request, order
        self.existing, self.deliver, self.held = existing, deliver, held
        self.submitted, self.started = time.time(), time.perf_counter()
        self.job_id: str | None = None
        self.result: Future = Future()
        self.job = None                     # the engine's, once there is one
        self.on_cancel: Callable[[CuzkError], None] = lambda error: None
        self.delivered: Callable[[], None] = lambda: None       # the journal forgets the job
        self._lock = threading.Lock()
        self._ended = False

    def end(self, result: dict) -> bool:
        """Deliver a result, the first one only."""
        with self._lock:
            if self._ended:
                return False
            self._ended = True
        try:
            self.deliver(result)
        except Exception as error:          # whoever takes it must not lose it
            result.update(ok=False, exit=int(Exit.INTERNAL),
                          errors=[p.as_dict() for p in as_error("deliver the result", error).problems])
        self.result.set_result(result)
        return True

    @property
    def wanted(self) -> bool:
        return not self._ended

    def fail(self, error: CuzkError) -> bool:
        """End with a failure; work that is under way for nobody else stops. False where it had ended."""
        if not self.end(failure(self.request, error, self.job_id)):
            return False
        self.on_cancel(error)
        return True

    def cancel(self, reason: str = "cancelled") -> bool:
        """False where it had ended."""
        return self.fail(fail(Exit.SIGINT, f"prove {self.job_id or self.request.label}", actual=reason))


class Prover:
    """`submit` from any thread, `close` once. `warn` gets each text once."""

    def __init__(self, options: Options = Options(), tracker: Tracker | None = None,
                 warn: Callable[[str], None] = lambda text: None):
        start_device(options.device, warn if options.on_device_error == "cpu" else None)
        from .engine import Engine          # imports JAX, which is configured now

        self.options, self.tracker = options, tracker if tracker is not None else Tracker()
        self._warn_user, self._warned = warn, set()
        self.engine = Engine(self.tracker, options.processes, self.warn)
        self.engine.warm()
        self._changed = threading.Condition()
        self._waiting: list[tuple[Order, Ticket]] = []
        self._loading: list[Ticket] = []
        self._jobs: dict[tuple, tuple] = {}         # (job id, parameter file) -> (job, tickets)
        self._sequence = itertools.count()
        self._deliveries = ThreadPoolExecutor(2, "deliver")
        self._locks: set[JobLock] = set()
        self._closed = False
        self.tracker.observe(self._shown, watch.blocked)
        threading.Thread(target=self._dispatch, name="loading", daemon=True).start()

    def warn(self, text: str) -> None:
        """Tell the user, once."""
        if text not in self._warned:
            self._warned.add(text)
            self._warn_user(text)

    def submit(self, request: Request, priority: Urgency | None = None, deadline: float | None = None,
               existing: Existing = lambda prepared, verifies: None,
               deliver: Callable[[dict], None] = lambda result: None, held: bool = False) -> Ticket:
        """Prove a request; returns at once.

        priority: None for that of its kind. deadline: seconds since the epoch. existing(prepared, verifies) is called
        when the input is checked, before long work: bytes that it gives are a proof that is kept instead, a CuzkError
        that it raises fails the request. deliver(result) is called with the result, which it may change, before the
        journal forgets the job. held: it forgets only when the ticket's `delivered` is called.
        """
        urgency = of_kind(request.kind) if priority is None else priority
        ticket = Ticket(request, Order.of(urgency, next(self._sequence)), existing, deliver, held)
        if deadline is not None:
            late = lambda: ticket.fail(fail(Exit.DEADLINE, f"prove {ticket.job_id or request.label}", None,
                                            "a proof before its deadline", "none by then"))
            timer = threading.Timer(min(max(deadline - time.time(), 0), threading.TIMEOUT_MAX), late)
            timer.daemon = True
            timer.start()
            ticket.result.add_done_callback(lambda _: timer.cancel())
        ticket.result.add_done_callback(lambda result: self._report(ticket, result.result()))
        with self._changed:
            heapq.heappush(self._waiting, (ticket.order, ticket))
            self._changed.notify_all()
        return ticket

    def _report(self, ticket: Ticket, result: dict) -> None:
        """A request that fails before the engine knows of it is a failed job in the status all the same."""
        if ticket.job is None and not result["ok"] and not self._closed:
            id = ticket.job_id or f"{ticket.request.kind}-{ticket.request.label}"
            first = result["errors"][0]
            self.tracker.job_started(id, ticket.request.kind, [])
            self.tracker.job_finished(id, False, "; ".join(p["message"] for p in result["errors"]),
                                      Exit(first["exit"]).name, result["exit"])

    # ---- loading
    def _shown(self) -> list[dict]:
        now = time.perf_counter()
        with self._changed:
            return [{"kind": t.request.kind, "label": t.request.label, "seconds": round(now - t.started, 3)}
                    for t in self._loading]

    def _dispatch(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (ticket := self._loadable()) is None:
                    self._changed.wait()
                if self._closed:
                    return
                self._loading.append(ticket)
            try:
                threading.Thread(target=self._load, args=(ticket,), name=f"load {ticket.request.label}"[:40],
                                 daemon=True).start()
            except RuntimeError as error:       # no thread can be started
                ticket.fail(as_error(f"prove {ticket.request.label}", error))
                with self._changed:
                    self._loading.remove(ticket)

    def _loadable(self) -> Ticket | None:
        while self._waiting and not self._waiting[0][1].wanted:
            heapq.heappop(self._waiting)
        if not self._waiting:
            return None
        order = self._waiting[0][0]
        crowd = lambda tickets: sum(not order.interrupts(other.order) for other in tickets)
        loaded = [tickets[0] for _, tickets in self._jobs.values()]
        if crowd(self._loading) >= LOADING or crowd(loaded) >= LOADED:
            return None
        return heapq.heappop(self._waiting)[1]

    def _load(self, ticket: Ticket) -> None:
        try:
            self._prepare(ticket)
        except Exception as error:          # a fault of ours, too, stops no other request
            ticket.end(failure(ticket.request, as_error(f"prove {ticket.request.label}", error), ticket.job_id))
        finally:
            with self._changed:
                self._loading.remove(ticket)
                self._changed.notify_all()

    def _prepare(self, ticket: Ticket) -> None:
        """Everything up to the engine. Raises CuzkError."""
        prepared = ticket.request.prepare()
        for text in prepared.warnings:
            self.warn(text)
        timings = {"vanilla_ms": (time.perf_counter() - ticket.started) * 1e3}
        kind, size, ticket.job_id = prepared.kind, prepared.size, job_id(prepared)
        structure = circuits.structure(kind, size.bytes)
        located = self.options.located(kind, size)
        for text in located.warnings:
            self.warn(text)
        problems: list[Problem] = []
        for step in (lambda: memory.require(structure, f"{kind} {size.name}", self.options.memory_budget),
                     lambda: self.options.test_params or located.require_params(Counts.of(structure).params_bytes)):
            try:
                step()
            except CuzkError as error:
                problems += error.problems
        if problems:
            raise CuzkError(*problems)
        self._ensure_test_parameters(kind, size, located)
        key = self.engine.key(kind, size.bytes, located)
        timings["srs_load_ms"] = key.load_ms
        self.engine.warm(structure.log_m)
        inputs = [prepared.public_inputs(k) for k in prepared.partitions]

        def verifies(proof: bytes) -> bool:
            return len(proof) == PROOF_BYTES * len(inputs) and all(
                verifier.verify_partitions(key.verifier, inputs, proof))

        kept = ticket.existing(prepared, verifies)
        if kept is None:
            lock = self._lock_job(ticket)
            kept = ticket.existing(prepared, verifies) if lock.waited else None
            if kept is None:
                self._prove(ticket, prepared, located, key, timings, lock)
                return
            self._unlock(lock)
        self._deliver(ticket, prepared, located, key, kept, {}, timings, reused=True)

    def _lock_job(self, ticket: Ticket) -> JobLock:
        """Raises CuzkError (BUSY) where another process proves the job and nobody wants to wait for it."""
        lock = JobLock(ticket.job_id)
        while True:
            try:
                owner = lock.acquire()
            except OSError as error:
                self.warn(f"{lock.path}: the job cannot be locked: {error.strerror}; proving goes on")
                return lock
            if owner is None:
                self._locks.add(lock)
                return lock
            ours = owner == os.getpid()
            if ours and self._joinable(ticket):
                return lock
            if not self.options.wait and not ours:
                raise fail(Exit.BUSY, f"prove {ticket.job_id}", None, "no other process that proves it",
                           f"process {owner or 'unknown'} does", "--wait waits for it")
            lock.waited = True
            if not ticket.wanted or self._closed:
                raise fail(Exit.INTERNAL, "proof stopped")
            if not ours:
                self.warn(f"{ticket.job_id}: waiting for process {owner or 'unknown'}, which proves it")
            time.sleep(0.1)

    def _unlock(self, lock: JobLock) -> None:
        self._locks.discard(lock)
        lock.release()

    def _joinable(self, ticket: Ticket) -> bool:
        return any(name[0] == ticket.job_id for name in self._jobs)

    def _prove(self, ticket: Ticket, prepared: Prepared, located, key, timings: dict, lock: JobLock) -> None:
        """Hand a job to the engine, or join the one that is there."""
        from .engine import Job

        options, fixed = self.options, self.options.insecure_randomness is not None
        journal = Journal(ticket.job_id, prepared.identity(), key.file.verifying_key.raw, self.warn)
        job = Job(ticket.job_id, prepared.kind, prepared.size.bytes, prepared.partitions, prepared.witness,
                  prepared.public_inputs, located, options.insecure_randomness, ticket.order,
                  options.monolithic, options.on_device_error,
                  memory.ahead(circuits.structure(prepared.kind, prepared.size.bytes),
                               memory.budget(options.memory_budget)[0], options.processes + 2))
        if not fixed:
            ticket.delivered = journal.clear
            job.on_partition = journal.keep
            if options.resume:
                job.proofs.update({k: proof for k, proof in journal.load().items() if k in prepared.partitions and
                                   verifier.verify_proof(key.verifier, prepared.public_inputs(k), proof)})
        name = ticket.job_id, str(located.params)
        with self._changed:
            found = self._jobs.get(name)
            if found is not None and found[0].done.done():      # cancelled or failed just now: not to be joined
                found = None
            if found is None:
                self._jobs[name] = job, [ticket]
            else:
                job = found[0]
                found[1].append(ticket)
        ticket.job = job
        resumed = sorted(job.proofs) if found is None else []

        def ended(future: Future) -> None:
            with self._changed:
                if self._jobs.get(name, (None,))[0] is job:
                    del self._jobs[name]
                self._changed.notify_all()
            given = ticket, prepared, located, key, job, timings, lock, resumed
            try:
                self._deliveries.submit(self._ended, *given)
            except RuntimeError:            # no thread can be started, or it is closed and nobody waits
                if self._closed:
                    self._unlock(lock)
                else:
                    self._ended(*given)

        ticket.on_cancel = lambda error: self._leave(name, ticket, error)
        if found is None:
            self.engine.submit(job)
        job.done.add_done_callback(ended)
        if not ticket.wanted:               # cancelled meanwhile
            self._leave(name, ticket, fail(Exit.SIGINT, f"prove {job.id}", actual="cancelled"))

    def _leave(self, name: tuple, ticket: Ticket, error: CuzkError) -> None:
        """A ticket ended before its job: which ends too, unless others wait for it."""
        with self._changed:
            job, tickets = self._jobs.get(name, (None, []))
            others = [t for t in tickets if t is not ticket and t.wanted]
        if job is not None and not others:
            self.engine.cancel(job, error)

    def _ended(self, ticket, prepared, located, key, job, timings, lock, resumed) -> None:
        try:
            error = job.done.exception()
            if error is not None:
                ticket.end(failure(ticket.request, as_error(f"prove {job.id}", error), job.id))
                return
            proof = b"".join(job.proofs[k] for k in prepared.partitions)
            delivered = self._deliver(ticket, prepared, located, key, proof, job.attempts, {**timings, **job.timings},
                                      resumed=resumed)
            if delivered and not ticket.held:
                ticket.delivered()
        except Exception as error:          # a fault of ours must not leave the ticket waiting
            ticket.end(failure(ticket.request, as_error(f"prove {job.id}", error), job.id))
        finally:
            self._unlock(lock)

    def _deliver(self, ticket, prepared, located, key, proof: bytes, attempts: dict, timings: dict, reused: bool = False,
                 resumed: list = ()) -> bool:
        """Did whoever asked get the result?"""
        timings = {**dict.fromkeys(UNITS), **timings, "total_ms": (time.perf_counter() - ticket.started) * 1e3}
        split = [{"partition": k, "proof": proof[PROOF_BYTES * i:PROOF_BYTES * (i + 1)].hex()}
                 for i, k in enumerate(prepared.partitions)]
        facts = prepared.facts()
        result = {
            "partitions": split, **facts,
            "job_id": ticket.job_id, "proof": proof.hex(), "verified": True, "reused": reused,
            "resumed_partitions": list(resumed), "attempts": max(attempts.values(), default=0),
            "timings": {name: None if v is None else round(v, 1) for name, v in timings.items()},
            "peak_memory_bytes": self.engine.peak_memory,
            "parameters": {"file": str(located.params), "size_bytes": key.file.size, "digest": located.digest},
            "network_accepts": network_takes(facts, _accepts(located, key.file.verifying_key)),
            "device": _device(), "versions": _versions(), "ok": True, "exit": 0, "errors": [],
            "warnings": prepared.warnings + located.warnings,
        }
        if self.options.insecure_randomness is not None:
            result["insecure_randomness"] = self.options.insecure_randomness
        return ticket.end(result) and result["ok"]

    # ---- parameters
    def _ensure_test_parameters(self, kind: str, size: Size, located) -> None:
        """`--test-params`: make what is missing."""
        from ..params.generate import device_fixed_base, generate

        if located.folder.origin != "--test-params" or located.params.exists():
            return
        self.warn(f"{located.params}: made now, from the published seed {TEST_SEED!r}; "
                  "anybody can forge proofs under these parameters")
        order = Order.of(of_kind(kind), -1)
        with self.engine.gpus.held():
            self.engine.device.submit(order, lambda: generate(
                circuits.structure(kind, size.bytes), located.circuit.stem, located.folder.path, TEST_SEED,
                device_fixed_base(), only_missing=True)).result()

    def preload(self, kind: str, size: Size) -> float:
        """Load the circuit's key; milliseconds, 0 where it was held. Raises CuzkError (PARAMETERS, USAGE)."""
        if any((k, s) == (kind, size.bytes) for k, s, _ in self.engine.loaded()):
            return 0.0
        located = self.options.located(kind, size)
        self._ensure_test_parameters(kind, size, located)
        key = self.engine.key(kind, size.bytes, located)
        self.engine.warm(circuits.structure(kind, size.bytes).log_m)
        return key.load_ms

    def evict(self, kind: str, size: Size) -> bool:
        """Forget the circuit's key; False where none was held."""
        return self.engine.evict(kind, size.bytes)

    def loaded(self) -> list[tuple[str, Size, str, int]]:
        """(kind, size, parameter file, its bytes) of the keys that are held."""
        return [(kind, SIZES[size], key.file.path, key.file.size) for kind, size, key in self.engine.loaded()]

    def close(self) -> None:
        """Stop at once; finished partitions stay in the journal."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.engine.close()
        self._deliveries.shutdown(wait=False)
        for lock in list(self._locks):
            self._unlock(lock)


def _accepts(located, key) -> bool | None:
    """What is known of the file, unless the key at its head says no."""
    return False if network_accepts_key(located.circuit, key) is False else located.network_accepts


def _versions() -> dict:
    import jax

    return {"cuzk": __version__, "jax": jax.__version__, "python": platform.python_version()}


def _device() -> dict:
    import jax

    device = jax.devices()[0]
    return {"platform": device.platform, "name": device.device_kind, "count": jax.device_count()}
