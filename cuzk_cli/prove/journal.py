"""Partition proofs of jobs that did not end: kept until the job has delivered its result, and no longer.

    journal/<job id>-<digest>/<partition>.json      the digest is of public facts and verifying key

A proof that is loaded is verified again by whoever loads it. Blinding scalars are never written.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Callable, NamedTuple

from ..errors import CuzkError
from ..params.atomic import replacing
from ..protocol.table import PROOF_BYTES
from ..status.writer import read_whole
from .state import state_folder

_NAME = re.compile(r"(.+)-([0-9a-f]{16})")
_PARTITION = re.compile(r"(0|[1-9][0-9]{0,5})\.json")


def journals() -> Path:
    """The folder of all journals."""
    return state_folder() / "journal"


class Journal:
    """One job's partitions. What cannot be written or read is warned of, once, and costs the proof nothing."""

    def __init__(self, job_id: str, identity: bytes, key: bytes, warn: Callable[[str], None] = lambda text: None):
        """identity: of the input; key: whatever tells one verifying key from another."""
        self.job_id = job_id
        digest = hashlib.sha256(len(identity).to_bytes(8, "big") + identity + key).hexdigest()[:16]
        self.folder = journals() / f"{job_id}-{digest}"
        self._warn, self._warned = warn, False

    def load(self) -> dict[int, bytes]:
        """What is kept: partition -> 192 bytes, not verified."""
        return _partitions(self.folder)

    def keep(self, partition: int, proof: bytes) -> None:
        """Keep a verified proof; on disk when this returns."""
        entry = {"schema_version": 1, "job_id": self.job_id, "partition": partition, "proof": proof.hex(),
                 "kept_at_unix": round(time.time(), 3)}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(self.folder / f"{partition}.json") as file:
                file.write(json.dumps(entry).encode() + b"\n")
        except (OSError, CuzkError) as error:
            if not self._warned:
                self._warned = True
                self._warn(f"{self.folder}: finished partitions cannot be kept: {error}; proving goes on")

    def clear(self) -> None:
        """The job has delivered its result."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _partitions(folder: Path) -> dict[int, bytes]:
    found = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        match = _PARTITION.fullmatch(name)
        try:
            proof = bytes.fromhex(json.loads(read_whole(folder / name))["proof"]) if match else b""
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue                # as good as not kept
        if len(proof) == PROOF_BYTES:
            found[int(match[1])] = proof
    return found


class Kept(NamedTuple):
    """A job that did not end."""

    job_id: str
    folder: Path
    partitions: list[int]
    kept_at: float          # seconds since the epoch, of the newest


def kept() -> list[Kept]:
    """All journals, oldest first."""
    found = []
    try:
        folders = list(os.scandir(journals()))
    except OSError:
        return []
    for entry in folders:
        match = _NAME.fullmatch(entry.name)
        try:
            if match and entry.is_dir(follow_symlinks=False):
                path, changed = Path(entry.path), entry.stat(follow_symlinks=False).st_mtime
                found.append(Kept(match[1], path, sorted(_partitions(path)), changed))
        except OSError:
            continue                # it ended meanwhile
    return sorted(found, key=lambda job: job.kept_at)


def remove(job: Kept) -> None:
    """Forget a job. Raises OSError."""
    shutil.rmtree(job.folder)
