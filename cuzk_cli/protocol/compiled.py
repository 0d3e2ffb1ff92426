"""Where compiled helpers come from: numba, with its disk cache in the user's cache folder."""
from __future__ import annotations

import hashlib
import os
from pathlib import Path


def _cache_folder() -> str:
    """One folder for every state of the shared arithmetic.

    numba compiles a function anew when the function's own file changes, not when one that it calls does: a change of
    fr.py would leave the old products inside functions of other modules.
    """
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join((here / name).read_bytes() for name in ("compiled.py", "fr.py"))).hexdigest()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(root / "cuzk" / "numba" / state[:16])


os.environ.setdefault("NUMBA_CACHE_DIR", _cache_folder())

import numba  # noqa: E402  (the cache folder must be known before numba is imported)
from llvmlite import ir  # noqa: E402
from numba import types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = ["intrinsic", "ir", "njit", "types"]


class _Cache:
    """numba's disk cache of one function, except that a cache that is damaged or full costs a compilation, not the call."""

    def __init__(self, cache):
        self._cache = cache

    def load_overload(self, *arguments):
        try:
            return self._cache.load_overload(*arguments)
        except Exception:               # whatever lies in the folder: pickles of anything raise anything
            return None

    def save_overload(self, *arguments) -> None:
        try:
            self._cache.save_overload(*arguments)
        except Exception:
            try:
                self._cache.flush()     # an index that cannot be read can be written anew
                self._cache.save_overload(*arguments)
            except Exception:
                pass

    def __getattr__(self, name: str):
        return getattr(self._cache, name)


def njit(function):
    """Compile to native code at the first call, without the interpreter lock; cached on disk where that is possible."""
    try:
        compiled = numba.njit(function, cache=True, nogil=True)
    except RuntimeError:                # numba found no folder for its cache
        return numba.njit(function, nogil=True)
    compiled._cache = _Cache(compiled._cache)
    return compiled
