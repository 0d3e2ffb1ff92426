"""Find the files of a sector as lotus and curio lay them out (lotus storage/sealer/storiface/filetype.go).

    DIR/sealed/s-t01000-1  DIR/cache/s-t01000-1/  DIR/update/s-t01000-1  DIR/update-cache/s-t01000-1/
"""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, Sequence

from ..errors import Exit, fail
from .files import present

_NAME = re.compile(r"s-t0(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")
_UPDATE_CACHE = ("update-cache", "updatecache")     # the second is lotus-bench's


class Sector(NamedTuple):
    """One sector's name and the paths that its files would have; nothing is opened yet."""

    name: str
    miner: int
    number: int
    sealed: Path
    cache: Path
    update: Path
    update_cache: Path


def parse_name(name: str) -> tuple[int, int]:
    """"s-t01000-17" -> (1000, 17). Raises CuzkError (USAGE)."""
    match = _NAME.fullmatch(name)
    if not match:
        raise fail(Exit.USAGE, "read the sector's name", name, "s-t0<miner>-<number>, as in s-t01000-17", repr(name))
    miner, number = (int(v) for v in match.groups())
    if max(miner, number) >= 1 << 64:
        raise fail(Exit.USAGE, "read the sector's name", name, "numbers below 2^64", name)
    return miner, number


def _sector(folder: Path, name: str) -> Sector:
    miner, number = parse_name(name)
    update_caches = [folder / d / name for d in _UPDATE_CACHE]
    return Sector(name, miner, number, folder / "sealed" / name, folder / "cache" / name, folder / "update" / name,
                  next(filter(present, update_caches), update_caches[0]))


def find(sector: str, storage: Sequence[str] = ()) -> Sector:
    """`DIR/s-t01000-1`, or a bare name that one of the `storage` folders has files of.

    The files of a bare name may lie in different storage folders. Raises CuzkError: USAGE for a name that is none,
    INPUT where no folder has any file of it.
    """
    folder, name = os.path.split(sector.rstrip("/"))
    if folder:
        return _sector(Path(folder), name)
    parse_name(name)
    if not storage:
        return _sector(Path("."), name)
    candidates = [_sector(Path(d), name) for d in storage]
    parts = {}
    for field in ("sealed", "cache", "update", "update_cache"):
        parts[field] = next((getattr(c, field) for c in candidates if present(getattr(c, field))), None)
    if all(path is None for path in parts.values()):
        raise fail(Exit.INPUT, "find the sector", name, "its files in a storage folder",
                   "none in " + ", ".join(map(str, storage)), "name its folder, or add --storage DIR")
    return candidates[0]._replace(**{field: path for field, path in parts.items() if path is not None})
