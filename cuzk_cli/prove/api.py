"""The Python interface: prove, verify, digest and generate, with results as plain dictionaries.

    from cuzk_cli.prove import api, snap
    results = api.prove([snap.Request("storage/s-t01000-1")], api.Options(test_params=True))

Every function may be called from any thread but none runs JAX on the caller's: device work has a thread of its own.
"""
from __future__ import annotations

import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from .. import __version__
from ..circuits import columns
from ..circuits import digest as circuit_digest
from ..errors import CuzkError, Exit, Problem, fail
from ..faults import as_error
from ..kernels import runtime
from ..params import locate as params_locate
from ..params.format import Counts, read_verifying_key
from ..protocol import table
from ..status import Tracker
from . import circuits, memory, verifier
from .kind import Prepared, Request, job_id

__all__ = ["Options", "digest", "generate", "prove", "verify"]

UNITS = ("queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "verify_ms", "total_ms")


@dataclass(frozen=True)
class Options:
    """How to prove and verify."""

    params: str | None = None               # folder of parameter files
    test_params: bool = False
    insecure_randomness: str | None = None  # seed of r and s
    device: str = "auto"                    # auto, cpu or cuda
    workers: int | None = None              # synthesis processes, None for one a core but one
    vk: str | None = None                   # verifying key file, for `verify`


def _workers(options: Options) -> int:
    if options.workers:
        return options.workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def _located(kind: str, size: table.Size, options: Options) -> params_locate.Located:
    folder = params_locate.parameter_folder(options.params, options.test_params)
    return params_locate.locate(params_locate.Circuit.of(kind, size), folder)


def _versions() -> dict:
    import jax

    return {"cuzk": __version__, "jax": jax.__version__, "python": platform.python_version()}


def failure(request: Request, error: CuzkError) -> dict:
    """The result of a request that failed."""
    return {"kind": request.kind, **request.subject(), "ok": False, "exit": int(error.exit),
            "errors": [p.as_dict() for p in error.problems], "warnings": [], "proof": None, "verified": False}


def _ensure_test_parameters(kind: str, size: table.Size, located, engine, warn) -> None:
    """`--test-params`: make what is missing."""
    from ..params.generate import device_fixed_base, generate as generate_files

    if located.folder.origin != "--test-params" or located.params.exists():
        return
    warn(f"{located.params}: made now, from the published seed {params_locate.TEST_SEED!r}; "
         "anybody can forge proofs under these parameters")
    engine.device.submit(
        lambda: generate_files(circuits.structure(kind, size.bytes), located.circuit.stem, located.folder.path,
                               params_locate.TEST_SEED, device_fixed_base(), only_missing=True)).result()


def prove(requests: list[Request], options: Options = Options(), tracker: Tracker | None = None,
          on_result: Callable[[int, dict], None] = lambda i, result: None,
          existing: Callable[[int, Prepared, Callable[[bytes], bool]], bytes | None] = lambda i, prepared, good: None,
          warn: Callable[[str], None] = lambda text: None,
          on_engine: Callable = lambda engine: None) -> list[dict]:
    """Prove each request; one result each, in order. A request that fails does not stop the others.

    existing(i, prepared, verifies): called when the input is checked, before long work; bytes that it returns are a proof that
    is kept instead, a CuzkError that it raises fails the request. on_result is called as each is done, on any thread.
    """
    runtime.setup(options.device)
    from .engine import Engine      # imports JAX, which is configured now

    engine = Engine(tracker if tracker is not None else Tracker(), _workers(options), warn)
    on_engine(engine)
    engine.warm()
    results: list[dict] = [{} for _ in requests]
    warned: set = set()

    def once(text: str) -> None:
        if text not in warned:
            warned.add(text)
            warn(text)

    def run(i: int) -> None:
        try:
            results[i] = _prove_one(i, requests[i], options, engine, existing, once)
        except Exception as error:      # a fault of ours, too, stops no other request
            results[i] = failure(requests[i], as_error(f"prove {requests[i].label}", error))
        on_result(i, results[i])

    try:
        with ThreadPoolExecutor(min(len(requests), 2) or 1, "loader") as loaders:
            for task in [loaders.submit(run, i) for i in range(len(requests))]:
                task.result()
    finally:
        engine.close()
    return results


def _prove_one(i: int, request: Request, options: Options, engine, existing, warn) -> dict:
    from .engine import Job

    started = time.perf_counter()
    prepared = request.prepare()
    for text in prepared.warnings:
        warn(text)
    vanilla_ms = (time.perf_counter() - started) * 1e3
    size, kind = prepared.size, prepared.kind
    structure = circuits.structure(kind, size.bytes)
    located = _located(kind, size, options)
    for text in located.warnings:
        warn(text)
    problems: list[Problem] = []
    for step in (lambda: memory.require(structure, f"{kind} {size.name}"),
                 lambda: None if options.test_params else located.require_params(Counts.of(structure).params_bytes)):
        try:
            step()
        except CuzkError as error:
            problems += error.problems
    if problems:
        raise CuzkError(*problems)
    _ensure_test_parameters(kind, size, located, engine, warn)
    key = engine.key(kind, size.bytes, located)
    engine.warm(structure.log_m)
    inputs = [prepared.public_inputs(k) for k in prepared.partitions]

    def verifies(proof: bytes) -> bool:
        return len(proof) == 192 * len(inputs) and all(verifier.verify_partitions(key.verifier, inputs, proof))

    kept = existing(i, prepared, verifies)
    result = prepared.facts()
    if kept is None:
        job = Job(job_id(prepared), kind, size.bytes, prepared.partitions, prepared.witness, prepared.public_inputs,
                  located, options.insecure_randomness)
        job.timings["srs_load_ms"] = key.load_ms
        engine.submit(job).result()
        proof, attempts, timings = b"".join(job.proofs[k] for k in prepared.partitions), job.attempts, job.timings
    else:
        proof, attempts, timings = kept, {}, {}
    timings = {**dict.fromkeys(UNITS), "vanilla_ms": vanilla_ms, **timings}
    timings["total_ms"] = (time.perf_counter() - started) * 1e3
    result.update({
        "job_id": job_id(prepared), "proof": proof.hex(), "verified": True, "reused": kept is not None,
        "attempts": max(attempts.values(), default=0),
        "timings": {name: None if v is None else round(v, 1) for name, v in timings.items()},
        "peak_memory_bytes": engine.peak_memory,
        "parameters": {"file": str(located.params), "size_bytes": key.file.size, "digest": located.digest},
        "network_accepts": located.network_accepts,
        "device": _device(), "versions": _versions(), "ok": True, "exit": 0, "errors": [],
        "warnings": prepared.warnings + located.warnings,
    })
    if options.insecure_randomness is not None:
        result["insecure_randomness"] = options.insecure_randomness
    return result


def _device() -> dict:
    import jax

    device = jax.devices()[0]
    return {"platform": device.platform, "name": device.device_kind, "count": jax.device_count()}


def verify(request: Request, proof: bytes, options: Options = Options()) -> dict:
    """Verify a proof for a request's files or public facts alone: {ok, verified, partitions: […], …}.

    Raises CuzkError (INPUT, PARAMETERS, USAGE) where it cannot be said.
    """
    prepared = request.public()
    kind, size = prepared.kind, prepared.size
    located = _located(kind, size, options)
    structure = circuits.structure(kind, size.bytes)
    path = options.vk or located.require_key(Counts.of(structure).vk_bytes)
    key = read_verifying_key(path, structure.n_inputs)
    if len(proof) != 192 * len(prepared.partitions):
        raise fail(Exit.VERIFICATION, "check the length of the proof", None,
                   f"{192 * len(prepared.partitions)} bytes, 192 for each of {len(prepared.partitions)} partitions",
                   f"{len(proof)} bytes")
    inputs = [prepared.public_inputs(k) for k in prepared.partitions]
    good = verifier.verify_partitions(verifier.prepare(key), inputs, proof)
    circuit = params_locate.Circuit.of(kind, size)
    accepts = params_locate.network_accepts_key(circuit, key) if options.vk else located.network_accepts
    bad = [k for k, verdict in zip(prepared.partitions, good) if not verdict]
    problems = [] if not bad else fail(
        Exit.VERIFICATION, "verify the proof", None, "a proof that verifies",
        f"partition {', '.join(map(str, bad))} does not verify").problems
    return {**prepared.facts(), "ok": not bad, "exit": int(Exit.VERIFICATION) if bad else 0, "verified": not bad,
            "partitions_verified": good, "verifying_key": str(path), "network_accepts": accepts,
            "errors": [p.as_dict() for p in problems], "warnings": located.warnings if not options.vk else []}


def digest(kind: str, sector_size: str, request: Request | None = None) -> dict:
    """Digests of the circuit and, with a request, of its partitions' witnesses (the shape of the reference's dumps).

    Never refuses unsatisfied input. Raises CuzkError for input that cannot be read.
    """
    size = table.parse_size(sector_size)
    structure = circuits.structure(kind, size.bytes)
    rows = circuit_digest.rows_sha256(structure)
    base = {"constraints": structure.n_rows, "inputs_with_one": structure.n_inputs, "aux": structure.n_aux,
            "nnz": structure.terms(), "rows_sha256": rows}
    entries = [{"partition": 0, **base}]
    if request is not None:
        prepared = request.prepare(check=False)
        entries = []
        for k in prepared.partitions:
            assignment = circuits.synthesise(kind, size.bytes, prepared.witness(k))
            entries.append({"partition": k, **base, "public_inputs": [w.tobytes().hex() for w in assignment.inputs[1:]],
                            "witness_sha256": circuit_digest.witness_sha256(assignment),
                            "unsatisfied": columns.unsatisfied(assignment)})
    return {"circuit": f"{kind} {size.name}", "parameter_identifier": table.parameter_identifier(kind, size),
            "partitions": entries}


def generate(kind: str, sector_size: str, seed: str, folder: str, device: str = "auto",
             progress: Callable[[int, int], None] = lambda done, total: None,
             warn: Callable[[str], None] = lambda text: None) -> dict:
    """Make test parameters from a known trapdoor. Raises CuzkError (USAGE, PARAMETERS, RESOURCES, OUTPUT)."""
    size = table.parse_size(sector_size)
    runtime.setup(device)
    from ..params.generate import device_fixed_base, generate as generate_files

    structure = circuits.structure(kind, size.bytes)
    need, (have, source) = structure.total_rows * 900 + (1 << 30), memory.available()
    if need > have:
        raise fail(Exit.RESOURCES, f"plan the memory of generating {kind} {size.name}", None, f"{need} bytes",
                   f"{have} bytes ({source})")
    started = time.perf_counter()
    made = generate_files(structure, table.parameter_stem(kind, size), Path(folder), seed, device_fixed_base(),
                          progress=progress,
                          waiting=lambda: warn(f"{folder}: waiting for another process that writes there"))
    return {"ok": True, "exit": 0, "kind": kind, "sector_size": size.name, "params": str(made.params),
            "vk": str(made.vk), "size_bytes": made.bytes, "digest": made.digest, "insecure_seed": seed,
            "network_accepts": False, "seconds": round(time.perf_counter() - started, 1)}
