"""Paths that a client names must lie in the folders that the daemon was started with, wherever links lead."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Iterable

from ..errors import CuzkError, Exit, Problem, fail


class Roots:
    """Storage folders, after symlinks."""

    def __init__(self, folders: Iterable[str]):
        """Raises CuzkError (USAGE) for what is no folder."""
        self.folders = []
        for folder in folders:
            if not os.path.isdir(folder):
                raise fail(Exit.USAGE, "open the storage folder", folder, "a folder", "none")
            self.folders.append(os.path.realpath(folder))

    def check(self, *paths: str | os.PathLike) -> None:
        """Raises CuzkError (INPUT) with every path that leads out of the folders; what is missing leads nowhere.

        Of a folder everything directly in it is looked at too, as the prover opens that.
        """
        problems = []
        for path in paths:
            for each in [path, *_entries(path)]:
                problems += self._outside(each)
        if problems:
            raise CuzkError(*problems[:20])

    def _outside(self, path: str | os.PathLike) -> list[Problem]:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError) as error:      # a loop of links; a null character
            return fail(Exit.INPUT, "follow the path", repr(str(path)), "a path", error).problems
        if any(os.path.commonpath((real, folder)) == folder for folder in self.folders):
            return []
        where = ", ".join(self.folders) or "none: no job may name a path"
        return fail(Exit.INPUT, "follow the path", path, f"a path in the daemon's storage folders ({where})", real,
                    "start the daemon with --storage DIR").problems


def _entries(path: str | os.PathLike) -> list[Path]:
    try:
        return [Path(path, name) for name in os.listdir(path)]
    except (OSError, ValueError):       # no folder
        return []
