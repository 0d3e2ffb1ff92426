"""Where compiled helpers come from: numba, with its disk cache in the user's cache folder."""
from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzk" / "numba"))

import numba  # noqa: E402  (the cache folder must be known before numba is imported)
from llvmlite import ir  # noqa: E402
from numba import types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = ["intrinsic", "ir", "njit", "types"]


def njit(function):
    """Compile to native code at the first call, without the interpreter lock; cached on disk."""
    return numba.njit(function, cache=True, nogil=True)
