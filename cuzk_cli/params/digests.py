"""Digests of parameter files, and the memory of them: hashing 33 GiB on every start would take a minute.

The published digest of a file is the first 32 hex digits of its BLAKE2b-512 (storage-proofs-core
src/parameter_cache.rs). A remembered digest holds for the file with the same path, size, inode and times of
modification and change, which nobody can set back; one small JSON file each.
"""
from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Callable

from ..errors import CuzkError, Exit, fail
from ..kernels.runtime import cache_dir
from .atomic import replacing

_CHUNK = 8 << 20


def new_hash():
    """The hash that `digest_text` reads."""
    return hashlib.blake2b()


def digest_text(state) -> str:
    """32 hex digits, as published."""
    return state.hexdigest()[:32]


def digest_file(path, progress: Callable[[int], None] = lambda done: None) -> str:
    """Read the whole file. Raises CuzkError (PARAMETERS) when it cannot be read or changes meanwhile."""
    state, buffer, done = new_hash(), memoryview(bytearray(_CHUNK)), 0
    try:
        with open(path, "rb", buffering=0) as file:
            before = _key(path, os.fstat(file.fileno()))
            while count := file.readinto(buffer):
                state.update(buffer[:count])
                done += count
                progress(done)
            after = _key(path, os.fstat(file.fileno()))
    except OSError as error:
        raise fail(Exit.PARAMETERS, "read", path, "a readable file", error.strerror) from None
    if before != after:
        raise fail(Exit.PARAMETERS, "compute the digest", path, "a file at rest", "it was written to meanwhile")
    return digest_text(state)


def _key(path, status: os.stat_result) -> dict:
    return {"path": os.path.realpath(path), "size": status.st_size, "mtime_ns": status.st_mtime_ns,
            "inode": status.st_ino, "ctime_ns": status.st_ctime_ns}


def _place(path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    return cache_dir() / "digests" / f"{name}.json"


def remember(path, digest: str) -> None:
    """Keep the digest of the file as it is now. A cache that cannot be written is no error."""
    try:
        entry = {**_key(path, os.stat(path)), "blake2b": digest}
        _place(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(_place(path)) as file:
            file.write(json.dumps(entry).encode())
    except (OSError, CuzkError):
        pass


def remembered(path) -> str | None:
    """The digest of the file, if it was remembered and the file is still the same."""
    try:
        entry = json.loads(_place(path).read_bytes())
        digest = entry.pop("blake2b")
        return digest if entry == _key(path, os.stat(path)) else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
