"""A whole snap proof, process start to exit, and bellperson's create_proof beside it in the same run, alternating.

    python benchmarks/snap.py --peer-bellperson 'COMMAND {out}' [--runs 3] [--json FILE]

COMMAND makes the proof of the same sector under the same parameters with the randomness of seed `a`, and writes JSON with
proofs[0].proof and proofs[0].seconds to {out}. Ours is run once before, so that the compile cache and the page cache are filled;
that run is reported as `cold_seconds` where `--cold` empties the compile cache first. The proofs are compared: a fast wrong answer
fails.
"""
from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTOR = ROOT / "fixtures" / "sectors" / "2KiB" / "s-t01000-1"


def ours(sector: Path) -> tuple[float, dict]:
    """Seconds of a new process, and its result."""
    command = [sys.executable, "-m", "cuzk_cli", "prove", "snap", str(sector), "--test-params", "--insecure-randomness", "a",
               "--progress", "none"]
    started = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    seconds = time.perf_counter() - started
    if ended.returncode:
        sys.exit(ended.stderr.decode())
    return seconds, json.loads(ended.stdout)["results"][0]


def peer(command: str) -> tuple[float, str]:
    """Seconds of create_proof as the command reports them, and the proof."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "proof.json"
        subprocess.run(shlex.split(command.replace("{out}", shlex.quote(str(out)))), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        proof = json.loads(out.read_text())["proofs"][0]
        return proof["seconds"], proof["proof"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bellperson", metavar="COMMAND")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="empty the compile cache first")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.cold:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzk"
        for name in ("compiled", "numba"):
            shutil.rmtree(cache / name, ignore_errors=True)
    first, result = ours(SECTOR)
    mine, theirs, ratios, details = [], [], [], []
    for _ in range(options.runs):
        seconds, answer = ours(SECTOR)
        if answer["proof"] != result["proof"]:
            sys.exit("two runs gave different proofs")
        mine.append(seconds)
        details.append(answer)
        if options.peer_bellperson:
            other, proof = peer(options.peer_bellperson)
            if proof != answer["proof"]:
                sys.exit("the peer's proof has other bytes")
            theirs.append(other)
            ratios.append(seconds / other)
    report = {
        "name": "prove snap 2KiB, whole process", "runs": options.runs, "cold_seconds": first if options.cold else None,
        "median_seconds": statistics.median(mine), "min_seconds": min(mine), "max_seconds": max(mine),
        "bellperson_create_proof_seconds": statistics.median(theirs) if theirs else "absent",
        "median_ratio": statistics.median(ratios) if ratios else "absent",
        "peak_memory_bytes": max(d["peak_memory_bytes"] for d in details),
        "timings_ms": sorted(details, key=lambda d: d["timings"]["total_ms"])[len(details) // 2]["timings"],
        "versions": result["versions"], "verified": all(d["verified"] for d in details),
    }
    text = json.dumps(report, indent=1)
    print(text)
    if options.json:
        Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
