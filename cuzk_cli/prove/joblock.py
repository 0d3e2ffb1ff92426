"""One process proves a job at a time: a lock file by job id, held by `flock`, so that a process that dies holds none."""
from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from .state import state_folder


def locks() -> Path:
    """The folder of lock files."""
    return state_folder() / "locks"


class FileLock:
    """A file that one process holds; it is removed when that lets go."""

    def __init__(self, path: Path):
        self.path = path
        self._file: int | None = None
        self._mutex = threading.Lock()

    def acquire(self) -> int | None:
        """None when it is ours now; else the pid of the process that holds it, 0 where that is not known.

        Raises OSError where the folder cannot be written.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        patience = 100
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(file, 20, 0)
                os.close(file)
                if owner.isdigit() or not patience:
                    return int(owner) if owner.isdigit() else 0
                patience -= 1       # it is about to write its pid
                time.sleep(0.01)
                continue
            if self._is_current(file):
                break
            os.close(file)          # its last owner removed the name meanwhile
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file
        return None

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """May be called again, from any thread, and by one that never got it."""
        with self._mutex:
            file, self._file = self._file, None
        if file is not None:
            try:
                os.unlink(self.path)
            except OSError:
                pass
            os.close(file)


class JobLock(FileLock):
    """The lock of one job. Where the folder cannot be written nobody is kept out."""

    def __init__(self, job_id: str):
        super().__init__(locks() / f"{job_id}.lock")
        self.waited = False         # did its holder wait for another process?


def owner(job_id: str) -> int | None:
    """The pid of the process that proves a job, None where nobody does."""
    path = locks() / f"{job_id}.lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        text = os.pread(file, 20, 0)
        return int(text) if text.isdigit() else 0
    finally:
        os.close(file)
