"""Generation of test parameters: ours, and bellperson's beside it in the same run.

    python benchmarks/parameters.py --peer-bellperson 'COMMAND {out}'

COMMAND writes the same parameters (snap, the sector size, seed `cuzk`) into the folder {out}. Every run is a new process;
every file written is hashed and compared with the digest of the reference, so that a fast wrong answer fails.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIGESTS = ROOT / "fixtures" / "params" / "digests.json"
OURS = (f"{shlex.quote(sys.executable)} -m cuzk_cli params generate snap --sector-size {{size}} "
        "--insecure-seed cuzk --out {out}")


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(command: str, entry: dict | None, scratch: str | None) -> float:
    """Seconds of one run in a folder of its own; exits when the result is not the reference's."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        out = Path(folder) / "out"
        started = time.perf_counter()
        ended = subprocess.run(shlex.split(command.replace("{out}", shlex.quote(str(out)))), stdout=subprocess.DEVNULL,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
        seconds = time.perf_counter() - started
        if ended.returncode:
            sys.exit(f"{command}: exit code {ended.returncode}")
        files = list(out.glob("*.params"))
        if len(files) != 1:
            sys.exit(f"{command}: {len(files)} .params files")
        if entry is not None and (files[0].name, sha256(files[0])) != (entry["file"], entry["sha256"]):
            sys.exit(f"{command}: not the parameters of the reference")
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bellperson", metavar="COMMAND", help="writes bellperson's parameters into {out}")
    parser.add_argument("--sector-size", default="2KiB")
    parser.add_argument("--runs", type=int, default=3, help="runs of ours; the median counts (default 3)")
    parser.add_argument("--peer-runs", type=int, default=1, help="runs of the peer, which takes minutes (default 1)")
    parser.add_argument("--scratch", help="folder for what is written (default: the system's)")
    options = parser.parse_args()
    entries = {entry["circuit"]: entry for entry in json.loads(DIGESTS.read_text())}
    entry = entries.get(f"snap {options.sector_size}")
    ours = OURS.replace("{size}", options.sector_size)
    report = {"circuit": f"snap {options.sector_size}", "checked": entry is not None}
    run(ours, entry, options.scratch)               # fills the compile cache
    report["ours_seconds"] = [round(run(ours, entry, options.scratch), 2) for _ in range(options.runs)]
    report["ours_median"] = statistics.median(report["ours_seconds"])
    if options.peer_bellperson:
        report["bellperson_seconds"] = [round(run(options.peer_bellperson, entry, options.scratch), 2)
                                        for _ in range(options.peer_runs)]
        report["ratio"] = round(report["ours_median"] / statistics.median(report["bellperson_seconds"]), 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
