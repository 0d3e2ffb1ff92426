"""The Python interface: prove, verify, digest and generate, with results as plain dictionaries.

    from cuzk_cli.prove import api, snap
    results = api.prove([snap.Request("storage/s-t01000-1")], api.Options(test_params=True))

Every function may be called from any thread but none runs JAX on the caller's: device work has a thread of its own.
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

from ..circuits import columns
from ..circuits import digest as circuit_digest
from ..errors import CuzkError, Exit, fail
from ..params import check as params_check
from ..params import locate as params_locate
from ..params.format import Counts, ParameterFile, read_verifying_key
from ..protocol import table
from ..status import Tracker
from . import circuits, memory, verifier
from .gpulock import GpuLocks
from .kind import Prepared, Request, network_takes
from .options import Options
from .platform import start_device

Verifies = Callable[[bytes], bool]      # does a proof hold for a request?

__all__ = ["Options", "check", "digest", "explain", "generate", "inspect", "prove", "vanilla", "verify"]


def prove(requests: list[Request], options: Options = Options(), tracker: Tracker | None = None,
          on_result: Callable[[int, dict], None] = lambda i, result: None,
          existing: Callable[[int, Prepared, Verifies], bytes | None] = lambda i, prepared, verifies: None,
          warn: Callable[[str], None] = lambda text: None, on_prover: Callable = lambda prover: None,
          deadline: float | None = None) -> list[dict]:
    """Prove each request; one result each, in order. A request that fails does not stop the others.

    existing(i, prepared, verifies): called when the input is checked, before long work; bytes that it returns are a proof
    that is kept instead, a CuzkError that it raises fails the request. on_result is called as each is done, on any
    thread. deadline: seconds since the epoch.
    """
    from .prover import Prover

    prover = Prover(options, tracker, warn)
    on_prover(prover)
    try:
        tickets = [prover.submit(request, None, deadline, lambda *given, i=i: existing(i, *given),
                                 lambda result, i=i: on_result(i, result)) for i, request in enumerate(requests)]
        return [ticket.result.result() for ticket in tickets]
    finally:
        prover.close()


def vanilla(request: Request) -> tuple[dict, list[bytes]]:
    """The vanilla proofs that a request's partitions are made of: as plain values beside their facts, and as bincode.

    Raises CuzkError (INPUT, USAGE).
    """
    prepared = request.prepare()
    return {**prepared.facts(), **prepared.vanilla_facts(), "ok": True, "exit": 0, "errors": [],
            "warnings": prepared.warnings}, prepared.vanilla()


def verify(request: Request, proof: bytes, options: Options = Options(), show_inputs: bool = False) -> dict:
    """Verify a proof for a request's files or public facts alone: {ok, verified, partitions: […], …}.

    show_inputs: with the public inputs of every partition, as hex, in the circuit's order.
    Raises CuzkError (INPUT, PARAMETERS, USAGE) where it cannot be said.
    """
    prepared = request.public()
    kind, size = prepared.kind, prepared.size
    located = options.located(kind, size)
    structure = circuits.structure(kind, size.bytes)
    path = options.vk or located.require_key(Counts.of(structure).vk_bytes)
    key = read_verifying_key(path, structure.n_inputs)
    if len(proof) != 192 * len(prepared.partitions):
        raise fail(Exit.VERIFICATION, "check the length of the proof", None,
                   f"{192 * len(prepared.partitions)} bytes, 192 for each of {len(prepared.partitions)} partitions",
                   f"{len(proof)} bytes")
    inputs = [prepared.public_inputs(k) for k in prepared.partitions]
    for k, given in zip(prepared.partitions, inputs):
        if len(given) + 1 != structure.n_inputs:
            raise fail(Exit.INPUT, f"count the public inputs of partition {k}", None,
                       f"{structure.n_inputs - 1} for {kind} {size.name}", f"{len(given)}")
    good = verifier.verify_partitions(verifier.prepare(key), inputs, proof)
    circuit = params_locate.Circuit.of(kind, size)
    facts = prepared.facts()
    accepts = network_takes(facts, params_locate.network_accepts_key(circuit, key))
    bad = [k for k, verdict in zip(prepared.partitions, good) if not verdict]
    problems = [] if not bad else fail(
        Exit.VERIFICATION, "verify the proof", None, "a proof that verifies",
        f"partition {', '.join(map(str, bad))} does not verify").problems
    shown = {"public_inputs": [[w.tobytes().hex() for w in given] for given in inputs]} if show_inputs else {}
    return {"partitions": prepared.partitions, **facts, **shown, "ok": not bad,
            "exit": int(Exit.VERIFICATION) if bad else 0, "verified": not bad,
            "partitions_verified": good, "verifying_key": str(path), "network_accepts": accepts,
            "errors": [p.as_dict() for p in problems],
            "warnings": prepared.warnings + (located.warnings if not options.vk else [])}


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
            unsatisfied = 0

            def counted(parts):
                nonlocal unsatisfied
                for part in parts:
                    unsatisfied += columns.unsatisfied(part)
                    yield part

            inputs, parts = circuits.synthesise_parts(kind, size.bytes, prepared.witness(k))
            witness = circuit_digest.witness_sha256_of(inputs, counted(parts))
            entries.append({"partition": k, **base, "public_inputs": [w.tobytes().hex() for w in inputs[1:]],
                            "witness_sha256": witness, "unsatisfied": unsatisfied})
    return {"circuit": f"{kind} {size.name}", "parameter_identifier": table.parameter_identifier(kind, size),
            "partitions": entries}


def inspect(kind: str, sector_size: str, options: Options = Options()) -> dict:
    """Counts, domain, sizes of the parameter files and the memory that a proof takes; nothing large is built.

    Raises CuzkError (USAGE).
    """
    size = table.parse_size(sector_size)
    structure, located = circuits.structure(kind, size.bytes), options.located(kind, size)
    counts, need, (have, source) = Counts.of(structure), memory.estimate(structure), memory.budget(options.memory_budget)
    a, b, c = structure.terms()
    return {
        "circuit": f"{kind} {size.name}", "parameter_identifier": table.parameter_identifier(kind, size),
        "constraints": structure.n_rows, "inputs_with_one": structure.n_inputs, "aux": structure.n_aux,
        "terms": {"a": a, "b": b, "c": c}, "log2_domain": structure.log_m,
        "elements": structure.n_slots, "placements": len(structure.placements), "templates": len(structure.templates),
        "points": {name: getattr(counts, name) for name in ("ic", "h", "l", "a", "b_g1", "b_g2")},
        "parameters": {"file": str(located.params), "present": located.params.exists(),
                       "params_bytes": counts.params_bytes, "vk_bytes": counts.vk_bytes,
                       "published_digests": {"params": located.circuit.params_digest, "vk": located.circuit.vk_digest}},
        "memory": {**{f"{name}_bytes": value for name, value in need._asdict().items()}, "need_bytes": need.total,
                   "have_bytes": have, "limit": source, "fits": need.total <= have},
    }


def explain(requests: list[Request], options: Options = Options()) -> list[dict]:
    """What `prove` would do with each request once its input is checked, without doing it; failures as `prove` has them."""
    from .kind import job_id
    from .prover import failure

    found = []
    for request in requests:
        try:
            prepared = request.prepare()
            found.append({**prepared.facts(), "job_id": job_id(prepared), "ok": True, "exit": 0, "errors": [],
                          "warnings": prepared.warnings, "proof": None, "verified": False,
                          "plan": inspect(prepared.kind, prepared.size.name, options)})
        except CuzkError as error:
            found.append(failure(request, error))
    return found


def generate(kind: str, sector_size: str, seed: str, folder: str, device: str = "auto",
             progress: Callable[[int, int], None] = lambda done, total: None,
             warn: Callable[[str], None] = lambda text: None) -> dict:
    """Make test parameters from a known trapdoor. Raises CuzkError (USAGE, PARAMETERS, RESOURCES, OUTPUT)."""
    size = table.parse_size(sector_size)
    start_device(device)
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


def check(kind: str, sector_size: str, options: Options = Options(), full: bool = False,
          on_bytes: Callable[[int, int], None] = lambda done, total: None,
          on_points: Callable[[int, int], None] = lambda done, total: None) -> dict:
    """Check a circuit's parameter files; `full`: every point too, on the device. on_bytes, on_points: (done, total).

    Raises CuzkError (USAGE, PARAMETERS, DEVICE).
    """
    size = table.parse_size(sector_size)
    structure, located = circuits.structure(kind, size.bytes), options.located(kind, size)
    started = time.perf_counter()
    found = params_check.check_files(located, Counts.of(structure), on_bytes)
    points = 0
    if full:
        start_device(options.device)
        with ParameterFile(located.params, found.counts) as file:
            with GpuLocks.of_this_process().held():
                points = params_check.check_points(file, on_points)
    return {"ok": True, "exit": 0, "errors": [], "warnings": located.warnings, "kind": kind, "sector_size": size.name,
            "params": str(located.params), "vk": str(located.vk) if found.vk else None, "size_bytes": found.size,
            "counts": found.counts._asdict(), "digest": found.digest, "published_digest": located.circuit.params_digest,
            "network_accepts": located.network_accepts, "full": full, "points_checked": points,
            "seconds": round(time.perf_counter() - started, 1)}
