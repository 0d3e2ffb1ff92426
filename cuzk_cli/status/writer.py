"""The status file: one atomic write at a time, in a folder that readers know."""
from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Callable

from . import process

ENDED_SECONDS = 600         # files of processes that ended by themselves are removed after
DEAD_SECONDS = 3600         # files of processes that died


def status_folder(option: str | None = None) -> Path:
    """--status-dir > CUZK_STATUS_DIR > $XDG_RUNTIME_DIR/cuzk > ${XDG_STATE_HOME:-~/.local/state}/cuzk."""
    if option:
        return Path(option)
    if os.environ.get("CUZK_STATUS_DIR"):
        return Path(os.environ["CUZK_STATUS_DIR"])
    if os.environ.get("XDG_RUNTIME_DIR"):
        return Path(os.environ["XDG_RUNTIME_DIR"]) / "cuzk"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuzk"


class Writer:
    """Writes `status-<pid>.json`: temporary file, fsync, rename. A folder that cannot be written gives one warning; the prover
    goes on."""

    def __init__(self, folder: Path, mode: int = 0o600, fsync: bool = True, warn: Callable[[str], None] = lambda text: None):
        self.folder, self.path = Path(folder), Path(folder) / f"status-{os.getpid()}.json"
        self._mode, self._fsync, self._warn, self._warned = mode, fsync, warn, False
        try:
            self.folder.mkdir(mode=0o700 if not mode & 0o077 else 0o755, parents=True, exist_ok=True)
            remove_stale(self.folder)
        except OSError as error:
            self._failed(error)

    def write(self, document: dict) -> None:
        """Replace the file as a whole."""
        temporary = None
        try:
            fd, temporary = tempfile.mkstemp(prefix=".status-", suffix=".tmp", dir=self.folder)
            with os.fdopen(fd, "w") as file:
                os.fchmod(file.fileno(), self._mode)
                json.dump(document, file, allow_nan=False)
                file.write("\n")
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            os.rename(temporary, self.path)
        except OSError as error:
            self._failed(error)
            if temporary is not None:
                try:
                    os.unlink(temporary)
                except OSError:
                    pass

    def _failed(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"{self.folder}: the status cannot be written: {error.strerror}; proving goes on")


def remove_stale(folder: Path) -> None:
    """Remove files of processes that ended more than 10 minutes or died more than an hour ago."""
    for path in folder.glob("status-*.json"):
        try:
            document, age = json.loads(path.read_text()), time.time() - path.stat().st_mtime
            gone = not process.alive(document["pid"], document["pid_start"], document["boot_id"])
            if age > DEAD_SECONDS and gone or age > ENDED_SECONDS and document["state"] == "ended" and gone:
                path.unlink()
        except (OSError, ValueError, KeyError, TypeError):
            continue
