"""Proofs of one kind in a warm process, and bellperson's create_proof beside them in the same run, alternating.

    python benchmarks/kinds.py window --peer-bellperson 'COMMAND {out}' [--runs 5]

Kinds: winning, window, porep, of the 2 KiB sectors under fixtures, with the test parameters. Every proof of ours is of a
fresh randomness r and s, and verified; its time goes from the request to the result, so that reading, vanilla proofs and
synthesis count, which they do not on the other side. COMMAND makes the proof of the same input and writes JSON with
proofs[0].seconds to {out}.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from snap import peer

ROOT = Path(__file__).resolve().parents[1]
SECTORS = ROOT / "fixtures" / "sectors" / "2KiB"
RANDOMNESS = json.loads((ROOT / "fixtures" / "posts" / "window-vanilla.json").read_text())["randomness"]


def request(kind: str):
    """The proof that the vectors of the kind are of."""
    from cuzk_cli.prove import porep, post

    if kind == "porep":
        return porep.Request(str(SECTORS / "s-t01000-1.c1.json"), miner="1000")
    numbers = (1, 2) if kind == "window" else (1,)
    sectors = tuple(post.Wanted(str(SECTORS / f"s-t01000-{number}")) for number in numbers)
    return post.Request(kind, sectors, RANDOMNESS, replica="sealed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["winning", "window", "porep"])
    parser.add_argument("--peer-bellperson", metavar="COMMAND")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    from cuzk_cli.prove.options import Options
    from cuzk_cli.prove.prover import Prover

    prover = Prover(Options(test_params=True, resume=False))

    def ours() -> tuple[float, dict]:
        started = time.perf_counter()
        result = prover.submit(request(given.kind)).result.result()
        assert result["ok"], result["errors"]
        return time.perf_counter() - started, result

    cold, _ = ours()
    ours()
    mine, other = [], []
    for _ in range(given.runs):
        seconds, result = ours()
        mine.append(seconds)
        if given.peer_bellperson:
            other.append(peer(given.peer_bellperson)[0])
    report = {"kind": given.kind, "first_seconds": round(cold, 2), "seconds": [round(s, 3) for s in mine],
              "median_seconds": round(statistics.median(mine), 3), "timings": result["timings"],
              "peak_memory_bytes": result["peak_memory_bytes"]}
    if other:
        report |= {"bellperson_seconds": [round(s, 3) for s in other],
                   "bellperson_median_seconds": round(statistics.median(other), 3),
                   "ratio": round(statistics.median(mine) / statistics.median(other), 3)}
    print(json.dumps(report), flush=True)
    os._exit(0)     # threads that still compile are not waited for


if __name__ == "__main__":
    main()
