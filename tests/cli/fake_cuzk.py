"""The command line with a prover that takes no time: `python fake_cuzk.py ARGUMENTS` is `cuzk ARGUMENTS`.

What becomes of a sector is said by its name: s-t01000-<number>, see `prove`. A proof is 192 bytes made
from the name; it verifies exactly when it is these.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cuzk_cli.errors import Exit, fail


class Request(NamedTuple):
    sector: str | None = None
    storage: tuple = ()
    vanilla: str | bytes | None = None
    sector_size: str | None = None
    comm_r_old: str | None = None
    comm_r_new: str | None = None
    comm_d_new: str | None = None
    partitions: tuple | None = None
    h: int | None = None

    @property
    def label(self) -> str:
        return Path(self.sector.rstrip("/")).name if self.sector else "vanilla"


@dataclass(frozen=True)
class Options:
    params: str | None = None
    test_params: bool = False
    insecure_randomness: str | None = None
    device: str = "auto"
    workers: int | None = None
    vk: str | None = None
    monolithic: bool = False
    resume: bool = True
    wait: bool = False
    on_device_error: str = "retry"
    memory_budget: int | None = None


def proof_of(request) -> bytes:
    digest = hashlib.sha512(request.label.encode()).digest() * 3
    return bytes([digest[0] | 0x80]) + digest[1:192]


def failure(request, error) -> dict:
    return {
        "kind": "snap",
        "sector": request.label if request.sector else None,
        "ok": False,
        "exit": int(error.exit),
        "errors": [p.as_dict() for p in error.problems],
        "warnings": [],
        "proof": None,
        "verified": False,
    }


class Prover:
    def close(self) -> None:
        if os.environ.get("FAKE_HANGS"):
            time.sleep(60)


def prove(
    requests,
    options=Options(),
    tracker=None,
    on_result=lambda i, result: None,
    existing=lambda i, prepared, verifies: None,
    warn=lambda text: None,
    on_prover=lambda prover: None,
    deadline=None,
):
    on_prover(Prover())
    tracker.add_workers([(0, 0)])
    results = []
    for i, request in enumerate(requests):
        number = request.label.rsplit("-", 1)[-1]
        try:
            result = _prove_one(i, request, number, options, tracker, existing, warn)
        except Exception as error:
            if not hasattr(error, "problems"):
                raise
            result = failure(request, error)
        on_result(i, result)
        results.append(result)
    return results


def _prove_one(i, request, number, options, tracker, existing, warn) -> dict:
    if number == "10":
        first, second = (
            fail(Exit.INPUT, "open", f"/{name}", "a readable file", "none") for name in ("sealed", "update")
        )
        raise type(first)(*first.problems, *second.problems)
    if number in ("11", "12", "13", "14", "15"):
        raise fail(Exit(int(number)), f"fail with {number}")
    if number == "500":
        raise RuntimeError("a fault\nof ours")
    if number == "501":
        raise MemoryError
    if number == "8":
        global held  # a file that stays open, under the lowest free descriptor
        held = open("held", "wb")
    if number == "7":
        warn("a warning")
    kept = existing(i, request, lambda proof: proof == proof_of(request))
    if kept is None:
        job = f"snap-1000-{number}-000000000000"
        tracker.job_started(job, "snap", [0])
        epoch = tracker.partition_gpu_start(job, 0, 0)
        if number == "60":
            print("proving", file=sys.stderr, flush=True)
            time.sleep(60)
        tracker.partition_gpu_end(epoch, "done", 1.0)
        tracker.job_finished(job, True)
    return {
        "kind": "snap",
        "sector": request.label,
        "proof": proof_of(request).hex(),
        "verified": True,
        "reused": kept is not None,
        "ok": True,
        "exit": 0,
        "errors": [],
        "warnings": [],
        "given": json.loads(json.dumps([request, options.__dict__], default=lambda v: v.decode())),
    }


def verify(request, proof, options=Options(), show_inputs=False) -> dict:
    if len(proof) != 192:
        raise fail(Exit.VERIFICATION, "check the length of the proof", None, "192 bytes", f"{len(proof)} bytes")
    good = proof == proof_of(request)
    problems = (
        [] if good else fail(Exit.VERIFICATION, "verify the proof", None, "a proof that verifies", "another").problems
    )
    return {
        "ok": good,
        "exit": 0 if good else 14,
        "verified": good,
        "errors": [p.as_dict() for p in problems],
        "warnings": [],
    }


def digest(kind, sector_size, request=None) -> dict:
    return {"circuit": f"{kind} {sector_size}", "partitions": [{"partition": 0}]}


def generate(
    kind, sector_size, seed, folder, device="auto", progress=lambda done, total: None, warn=lambda text: None
) -> dict:
    progress(1, 2)
    if seed == "sleep":
        print("generating", file=sys.stderr, flush=True)
        time.sleep(60)
    if seed == "full":
        raise fail(Exit.OUTPUT, "write", folder, "a writable file", "No space left on device")
    return {"ok": True, "exit": 0, "kind": kind, "sector_size": sector_size, "insecure_seed": seed}


if __name__ == "__main__":
    import cuzk_cli

    api = types.ModuleType("cuzk_cli.prove.api")
    for name in ("Options", "prove", "verify", "digest", "generate"):
        setattr(api, name, globals()[name])
    snap = types.ModuleType("cuzk_cli.prove.snap")
    snap.Request = Request
    package = types.ModuleType("cuzk_cli.prove")
    package.api, package.snap, cuzk_cli.prove = api, snap, package
    sys.modules.update({"cuzk_cli.prove": package, "cuzk_cli.prove.api": api, "cuzk_cli.prove.snap": snap})
    from cuzk_cli.cli.main import run

    run()
