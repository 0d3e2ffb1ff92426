"""The status file: one atomic write at a time, in a folder that readers know."""
from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import Callable

from . import process

ENDED_SECONDS = 600         # files of processes that ended by themselves are removed after
DEAD_SECONDS = 3600         # files of processes that died
LARGEST = 64 << 20          # bytes of a file that is read
STATUS_NAME = re.compile(r"status-([0-9]{1,10})\.json")
_TEMPORARY_NAME = re.compile(r"\.status-([0-9]{1,10})-.*\.tmp")


def status_folder(option: str | os.PathLike | None = None) -> Path:
    """option > CUZK_STATUS_DIR > $XDG_RUNTIME_DIR/cuzk > ${XDG_STATE_HOME:-~/.local/state}/cuzk; empty is not given."""
    given = option or os.environ.get("CUZK_STATUS_DIR")
    if given:
        return Path(given)
    parent = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_STATE_HOME")
    return (Path(parent) if parent else Path(os.path.expanduser("~")) / ".local" / "state") / "cuzk"


class Writer:
    """Writes `status-<pid>.json` with the permissions `mode`: temporary file, fsync, rename.

    What cannot be written is given to `warn` once, and tried again at the next write: no method raises OSError. For one
    thread at a time. fsync=False is for tests.
    """

    def __init__(self, folder: str | os.PathLike, mode: int = 0o600, fsync: bool = True,
                 warn: Callable[[str], None] = lambda text: None):
        self.folder, self._pid = Path(folder), os.getpid()
        self.path = self.folder / f"status-{self._pid}.json"
        self._mode, self._fsync, self._warn, self._warned = mode, fsync, warn, False
        self._epochs: dict[int, tuple[dict, bytes]] = {}      # id -> the object and its text
        try:
            self._make_folder()
            remove_old(self.folder)
        except OSError as error:
            self._failed(error)

    def write(self, document: dict) -> None:
        """Replace the file as a whole. Raises ValueError or TypeError for what JSON cannot hold."""
        data = self._encoded(document)
        try:
            try:
                self._replace(data)
            except FileNotFoundError:       # the folder was removed meanwhile
                self._make_folder()
                self._replace(data)
        except OSError as error:
            self._failed(error)

    def _encoded(self, document: dict) -> bytes:
        """One line. Closed epochs, the same objects from write to write, are encoded once: they are most of it."""
        rest = {name: value for name, value in document.items() if name != "epochs"}
        if not rest or not document.get("epochs"):
            return _text(document) + b"\n"
        known, self._epochs = self._epochs, {}
        for epoch in document["epochs"]:
            found = known.get(id(epoch))
            self._epochs[id(epoch)] = found if found and found[0] is epoch else (epoch, _text(epoch))
        return b'%b,"epochs":[%b]}\n' % (_text(rest)[:-1], b",".join([text for _, text in self._epochs.values()]))

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700 if not self._mode & 0o077 else 0o755, parents=True, exist_ok=True)

    def _replace(self, data: bytes) -> None:
        fd, temporary = tempfile.mkstemp(prefix=f".status-{self._pid}-", suffix=".tmp", dir=self.folder)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(file.fileno(), self._mode)
                file.write(data)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            os.rename(temporary, self.path)
        except OSError:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise

    def _failed(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"{self.folder}: the status cannot be written: {error.strerror or error}; proving goes on")


def _text(value: dict) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def read_whole(path: str | os.PathLike) -> bytes:
    """A plain file of bounded size. Raises OSError; never waits for a writer of a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "no plain file")
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(0, f"longer than {LARGEST} bytes")
    return data


def remove_old(folder: Path, now: float | None = None) -> None:
    """Remove files of processes that ended more than 10 minutes or died more than an hour ago, and what they left half.
    """
    now = time.time() if now is None else now
    for name in os.listdir(folder):
        match = STATUS_NAME.fullmatch(name) or _TEMPORARY_NAME.fullmatch(name)
        if match is None:
            continue
        path = folder / name
        try:
            age = now - path.stat().st_mtime
            if age > ENDED_SECONDS and not _alive(path, int(match[1])) and (age > DEAD_SECONDS or _ended(path)):
                path.unlink()
        except OSError:
            continue                # another writer was faster, or it is not ours


def _document(path: Path) -> dict:
    """What a file holds, {} for what is no status document."""
    try:
        document = json.loads(read_whole(path))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _alive(path: Path, pid: int) -> bool:
    document = _document(path)
    started, boot = document.get("pid_start"), document.get("boot_id")
    return process.alive(pid, started if isinstance(started, int) else None, boot if isinstance(boot, str) else None)


def _ended(path: Path) -> bool:
    return _document(path).get("state") == "ended"
