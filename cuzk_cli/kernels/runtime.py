"""How JAX is set up in the process that owns it. Call `setup()` before anything else of this package."""
from __future__ import annotations

import ctypes
import os
import platform
import threading
from pathlib import Path

_lock = threading.Lock()
_done = False


def cache_dir() -> Path:
    """Folder of everything that can be made again: `$XDG_CACHE_HOME/cuzk`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzk"


def _keep_pages() -> None:
    """Make glibc keep large results mapped.

    XLA:CPU mallocs every result and glibc maps and unmaps the large ones, so that every call faults every page again:
    a factor of 2 to 4 on streaming kernels (measured). glibc only; elsewhere nothing happens.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    for key, value in ((-4, 0), (-1, 0x7FFFFFFF), (-2, 64 << 20), (-8, 1)):  # MMAP_MAX, TRIM_THRESHOLD, TOP_PAD, ARENA_MAX
        libc.mallopt(key, value)


def setup(device: str = "auto") -> None:
    """Configure and import JAX: 64-bit integers, host devices, persistent compile cache. Idempotent.

    device: "auto", "cpu", "cuda" or "cuda:N[,M…]", which counts the GPUs that the environment leaves visible. Values
    that the user has set in the environment are otherwise never overridden. ValueError for a GPU that is not visible.
    """
    global _done
    with _lock:
        if _done:
            return
        _keep_pages()
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if device == "cpu":
            os.environ["JAX_PLATFORMS"] = "cpu"
        elif device.startswith("cuda"):
            os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")
            _select(device.partition(":")[2])
        import jax

        jax.config.update("jax_enable_x64", True)
        if "JAX_NUM_CPU_DEVICES" not in os.environ:
            jax.config.update("jax_num_cpu_devices", host_devices())
        if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
            jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        _done = True


def _select(ordinals: str) -> None:
    """Let CUDA see these GPUs only; it counts them anew from 0."""
    if not ordinals:
        return
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = None if given is None else [name.strip() for name in given.split(",") if name.strip()]
    try:
        names = [n if visible is None else visible[int(n)] for n in ordinals.split(",")]
    except IndexError:
        raise ValueError(f"CUDA_VISIBLE_DEVICES={given} leaves no GPU number {ordinals}") from None
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)


def host_devices() -> int:
    """Host devices to split CPU work over: a power of two, at most the cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 << (min(cores, 64).bit_length() - 1)


def compiler_options() -> dict:
    """XLA options of every kernel: 512-bit vectors where the CPU has them and no cap on the ISA is set."""
    if "xla_cpu_max_isa" in os.environ.get("XLA_FLAGS", "") or not _has_avx512():
        return {}
    return {"xla_cpu_prefer_vector_width": 512}


def _has_avx512() -> bool:
    try:
        return " avx512dq" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
