"""`cuzk cache list` and `clear`: the folder of everything that can be made again."""
from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, List, Optional

import typer

from ..errors import Exit, fail
from ..kernels.runtime import cache_dir
from ..params.marker import LOCK
from . import options as o
from .main import command, groups
from .report import SCHEMA_VERSION
from .streams import put_json

MEANING = {
    "test-params": "parameters of --test-params",
    "compiled": "compiled programs of the devices",
    "numba": "compiled programs of the host",
    "digests": "digests of parameter files",
}


def _caches() -> list[dict]:
    """One object a folder. Symbolic links are not followed."""
    try:
        names = sorted(entry.name for entry in os.scandir(cache_dir()) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fail(Exit.OUTPUT, "look into the cache", cache_dir(), "a readable folder", error.strerror) from None
    found = []
    for name in names:
        size = files = 0
        for folder, _, inside in os.walk(cache_dir() / name):
            for each in inside:
                try:
                    size += os.lstat(os.path.join(folder, each)).st_size
                    files += 1
                except OSError:         # it went meanwhile
                    continue
        found.append({"name": name, "what": MEANING.get(name), "path": str(cache_dir() / name), "files": files,
                      "size_bytes": size})
    return found


@groups["cache"].command("list")
@command
def list_caches(json_errors: o.JsonErrors = False) -> int:
    """Each cache with its files and bytes. [env: XDG_CACHE_HOME]"""
    caches = _caches()
    put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "errors": [], "folder": str(cache_dir()),
              "caches": caches, "size_bytes": sum(each["size_bytes"] for each in caches)})
    return 0


@groups["cache"].command("clear")
@command
def clear(names: Annotated[Optional[List[str]], typer.Argument(metavar="[NAME]...", show_default=False,
                                                               help="As `list` names them; all by default.")] = None,
          json_errors: o.JsonErrors = False) -> int:
    """Remove caches. A prover that runs keeps what it has read; what is missing is made again when it is needed."""
    caches = {each["name"]: each for each in _caches()}
    for name in names or []:
        if name not in caches and name not in MEANING:
            raise fail(Exit.USAGE, "clear the cache", name, f"one of {' '.join(sorted({*caches, *MEANING}))}")
    removed = [each for name, each in caches.items() if not names or name in names]
    for each in removed:
        with _alone(Path(each["path"])):
            _remove(each["path"])
    put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "errors": [], "folder": str(cache_dir()),
              "removed": removed, "size_bytes": sum(each["size_bytes"] for each in removed)})
    return 0


def _remove(path: str) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:           # somebody else cleared it
        pass
    except OSError as error:
        raise fail(Exit.OUTPUT, "clear the cache", error.filename or path, "a folder that can be removed",
                   error.strerror) from None


@contextmanager
def _alone(folder: Path):
    """No other process makes parameters there meanwhile. Raises CuzkError (BUSY)."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:                     # nobody ever did
        yield
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise fail(Exit.BUSY, "clear the cache", folder, "no process that makes parameters there", "one that does",
                       "try again when it has ended") from None
        yield
    finally:
        os.close(lock)
