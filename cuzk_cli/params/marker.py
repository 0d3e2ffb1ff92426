"""Folders of test parameters: the marker file, and where parameters of a known secret may be made at all.

Whoever knows the seed can forge proofs that verify under its parameters. Such files carry the network's file names, so
they live in marked folders, away from every place where real ones are looked for.
"""
from __future__ import annotations

import fcntl
import json
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Mapping, NamedTuple

from ..errors import CuzkError, Exit, fail
from .atomic import output_error, replacing

MARKER = "TEST-PARAMETERS.json"
LOCK = ".cuzk-generate.lock"
FILE_PREFIX = "v28-"
DEFAULT_FOLDER = Path("/var/tmp/filecoin-proof-parameters")    # storage-proofs-core src/settings.rs
FOLDER_VARIABLE = "FIL_PROOFS_PARAMETER_CACHE"
_LONGEST = 1 << 16          # bytes of a marker
_WARNING = "Anyone can forge proofs under these parameters. The network does not accept them."


class Marker(NamedTuple):
    """What the marker of a folder says; `seed` is None where it cannot be read."""

    seed: str | None


def read_marker(folder) -> Marker | None:
    """The marker of `folder`; None where there is none. A damaged marker still marks."""
    path = Path(folder) / MARKER
    try:
        if not os.path.lexists(path):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)      # never waits for a pipe's writer
        with os.fdopen(fd, "rb") as file:
            seed = json.loads(file.read(_LONGEST))["seed"] if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Marker(None)
    return Marker(seed if isinstance(seed, str) else None)


def write_marker(folder, seed: str) -> None:
    """Mark `folder`. Raises CuzkError (OUTPUT)."""
    text = json.dumps({"seed": seed, "warning": _WARNING}, indent=2) + "\n"
    with replacing(Path(folder) / MARKER) as file:
        file.write(text.encode())


def _same(a, b) -> bool:
    """Do two paths name one folder, whether or not it exists?"""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def refuse_folder(folder, seed: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises CuzkError (PARAMETERS) where parameters of a known secret must not be made."""
    def refused(expected: str, actual: str, hint: str = "choose another folder with --out") -> CuzkError:
        return fail(Exit.PARAMETERS, "generate test parameters", folder, expected, actual, hint)

    if _same(folder, DEFAULT_FOLDER):
        raise refused("a folder of its own", "the folder of the network's parameters")
    named = environ.get(FOLDER_VARIABLE)
    if named and _same(folder, named):
        raise refused("a folder of its own", f"the folder that {FOLDER_VARIABLE} names")
    marker = read_marker(folder)
    if marker is None:
        try:
            present = sorted(name for name in os.listdir(folder) if name.startswith(FILE_PREFIX))
        except FileNotFoundError:
            return
        except OSError as error:
            raise output_error(error, "look into the folder", folder) from None
        if present:
            raise refused(f"no parameters without the marker {MARKER}", f"{len(present)} files such as {present[0]}")
    elif marker.seed != seed:
        said = "a marker that cannot be read" if marker.seed is None else f"parameters of seed {marker.seed!r}"
        raise refused(f"parameters of seed {seed!r}", said)


@contextmanager
def generating(folder, seed: str, environ: Mapping[str, str] = os.environ,
               waiting: Callable[[], None] = lambda: None):
    """Make and mark `folder`, and hold its lock while the block generates.

    `waiting` is called when another process holds it, before we wait.

    Raises CuzkError (PARAMETERS) where `refuse_folder` does, (OUTPUT) where the folder cannot be written.
    """
    folder = Path(folder)
    refuse_folder(folder, seed, environ)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise output_error(error, "make the folder", folder) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        refuse_folder(folder, seed, environ)        # whoever held the lock may have marked it
        if read_marker(folder) is None:
            write_marker(folder, seed)
        for leftover in folder.glob(f".{FILE_PREFIX}*.tmp"):    # of a process that was killed: we hold the lock
            leftover.unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)
