"""One process uses a GPU at a time: a lock for each GPU, by the UUID that the driver gives it. The CPU has none."""
from __future__ import annotations

import ctypes
import threading
import time
import uuid
from contextlib import contextmanager
from typing import Callable

from ..errors import Exit, fail
from .joblock import FileLock, locks

PATIENCE = 600.0        # seconds that a partition waits for GPUs which another process has
_POLL = 0.1


def visible_gpus(driver=None) -> list[str]:
    """UUIDs of the GPUs that CUDA_VISIBLE_DEVICES leaves, as "GPU-…"; none where there is no NVIDIA driver.

    driver: libcuda, for tests.
    """
    try:
        driver = driver or ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, found = ctypes.c_int(), []
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    name_of = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid    # v2 tells slices of a GPU apart
    for ordinal in range(count.value):
        device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if driver.cuDeviceGet(ctypes.byref(device), ordinal) or name_of(ctypes.byref(name), device):
            continue
        found.append(f"GPU-{uuid.UUID(bytes=bytes(name))}")
    return found


class GpuLocks:
    """All GPUs of this process, held while anybody in it needs them. Call `hold` and `let_go` in pairs, from any thread."""

    def __init__(self, names: list[str], warn: Callable[[str], None] = lambda text: None, patience: float = PATIENCE):
        self._locks = [FileLock(locks() / f"{name}.lock") for name in sorted(names)]
        self._warn, self._patience = warn, patience
        self._users, self._mutex = 0, threading.Lock()

    @classmethod
    def of_this_process(cls, warn: Callable[[str], None] = lambda text: None) -> "GpuLocks":
        """Those of the devices that kernels run on. JAX must have been started."""
        from ..kernels.devices import platform

        return cls([] if platform() == "cpu" else visible_gpus(), warn)

    def hold(self, wanted: Callable[[], bool] = lambda: True,
             waiting: Callable[[str, int], None] = lambda gpu, owner: None) -> bool:
        """True when they are ours; False where `wanted` says no meanwhile. waiting(GPU, pid of its owner, 0 for unknown)
        is called every 0.1 s until then. Raises CuzkError (DEVICE) where another process keeps them too long."""
        until = time.monotonic() + self._patience
        while True:
            with self._mutex:
                busy = self._locks and not self._users and self._take()
                if not busy:
                    self._users += 1
                    return True
            if not wanted():
                return False
            gpu, owner = busy
            if time.monotonic() > until:
                raise fail(Exit.DEVICE, "wait for the GPU", None, f"{gpu} free within {self._patience:.0f} s",
                           f"process {owner or 'unknown'} uses it", "--device cuda:N takes another one")
            waiting(gpu, owner)
            time.sleep(_POLL)

    def _take(self) -> tuple[str, int] | None:
        """All locks or none, so that two processes never wait for each other; else which one is held, and by whom."""
        for i, lock in enumerate(self._locks):
            try:
                owner = lock.acquire()
            except OSError as error:
                self._warn(f"{lock.path}: the GPU cannot be locked: {error.strerror}; proving goes on")
                continue
            if owner is not None:
                for taken in self._locks[:i]:
                    taken.release()
                return lock.path.stem, owner
        return None

    @contextmanager
    def held(self):
        """A context in which they are ours. Raises CuzkError as `hold`."""
        said: list[str] = []

        def waiting(gpu: str, owner: int) -> None:
            if not said:
                self._warn(f"waiting for {gpu}, which process {owner or 'unknown'} uses")
            said.append(gpu)

        self.hold(waiting=waiting)
        try:
            yield
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Free for other processes once nobody here needs them."""
        with self._mutex:
            self._users -= 1
            if not self._users:
                self._release()

    def close(self) -> None:
        """Free at once."""
        with self._mutex:
            self._release()

    def _release(self) -> None:
        for lock in self._locks:
            lock.release()
