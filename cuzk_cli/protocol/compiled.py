"""Where compiled helpers come from: numba, with its disk cache in the user's cache folder."""
from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzk" / "numba"))

import numba  # noqa: E402  (the cache folder must be known before numba is imported)


def njit(function):
    """Compile to native code at the first call, without the interpreter lock; cached on disk."""
    return numba.njit(function, cache=True, nogil=True)


def inline(function):
    """A small helper that is inlined into compiled functions."""
    return numba.njit(function, inline="always")
