import errno
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzk_cli.status import Tracker, Writer, read_status, status_folder
from cuzk_cli.status.writer import DEAD_SECONDS, ENDED_SECONDS, remove_old

from .common import quick, shown, two_workers


def status_file(folder, pid=None):
    return Path(folder) / f"status-{pid or os.getpid()}.json"


@pytest.fixture
def environment(monkeypatch):
    for name in ("CUZK_STATUS_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    return monkeypatch.setenv


def test_folder_is_the_first_that_is_given(environment):
    assert status_folder() == Path("/home/someone/.local/state/cuzk")
    environment("XDG_STATE_HOME", "/state")
    assert status_folder() == Path("/state/cuzk")
    environment("XDG_RUNTIME_DIR", "/run/user/7")
    assert status_folder() == Path("/run/user/7/cuzk")
    environment("CUZK_STATUS_DIR", "/var/lib/status")
    assert status_folder("") == Path("/var/lib/status")
    assert status_folder("mine") == Path("mine")


@pytest.mark.parametrize("mode, folder_mode", [(0o600, 0o700), (0o644, 0o755)])
def test_permissions(mode, folder_mode, tmp_path):
    before = os.umask(0o022)
    try:
        Tracker(Writer(tmp_path / "a" / "b", mode=mode)).start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(status_file(tmp_path / "a" / "b").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == folder_mode


def test_a_write_is_synced_and_renamed_and_leaves_nothing_else(tmp_path, monkeypatch):
    calls = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda a, b: (calls.append("rename"), rename(a, b)))
    tracker = two_workers(Writer(tmp_path))
    calls.clear()
    epoch = tracker.partition_gpu_start("A", 0, 0)
    assert calls == ["fsync", "rename"]
    assert shown(json.loads(status_file(tmp_path).read_bytes()), 0) == ("proving", "A", 0)
    tracker.partition_gpu_end(epoch, "done")
    assert calls == ["fsync", "rename"] * 2
    assert shown(json.loads(status_file(tmp_path).read_bytes()), 0)[0] == "idle"
    assert os.listdir(tmp_path) == [status_file(tmp_path).name]


def test_folder_that_cannot_be_made_gives_one_warning_and_proving_goes_on(tmp_path):
    (tmp_path / "plain").write_text("")
    said = []
    tracker = two_workers(Writer(tmp_path / "plain" / "below", warn=said.append))
    tracker.start()
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done")
    tracker.close()
    assert len(said) == 1 and "proving goes on" in said[0] and str(tmp_path / "plain" / "below") in said[0]
    assert tracker.snapshot()["counters"]["epochs_done"] == 1


@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_write_that_fails_leaves_the_last_whole_document_and_the_next_tries_again(call, number, tmp_path, monkeypatch):
    said = []
    tracker = two_workers(Writer(tmp_path, warn=said.append))

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, refuse)
        tracker.partition_gpu_start("A", 0, 0)
        tracker.partition_gpu_start("A", 1, 1)
    assert shown(json.loads(status_file(tmp_path).read_bytes()), 0)[0] == "idle"
    assert os.listdir(tmp_path) == [status_file(tmp_path).name] and len(said) == 1
    tracker.progress("A")
    tracker.partition_failed("B", 0, "x")
    assert shown(json.loads(status_file(tmp_path).read_bytes()), 0) == ("proving", "A", 0)


def test_folder_that_is_removed_is_made_again(tmp_path):
    said = []
    tracker = two_workers(Writer(tmp_path / "status", warn=said.append))
    status_file(tmp_path / "status").unlink()
    (tmp_path / "status").rmdir()
    tracker.partition_gpu_start("A", 0, 0)
    assert shown(read_status(tmp_path / "status"), 0) == ("proving", "A", 0) and not said


class Gone:
    """Files of processes that are no more."""

    def __init__(self, folder):
        self.folder = folder
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        self.pid = child.pid

    def leave(self, age, state="running", name=None, data=None):
        document = {**Tracker().snapshot(), "pid": self.pid, "pid_start": 1, "state": state}
        path = self.folder / (name or f"status-{self.pid}.json")
        path.write_text(json.dumps(document) if data is None else data)
        os.utime(path, (time.time() - age,) * 2)
        return path


@pytest.mark.parametrize("state, age, removed", [
    ("ended", ENDED_SECONDS - 60, False), ("ended", ENDED_SECONDS + 1, True),
    ("running", ENDED_SECONDS + 1, False), ("running", DEAD_SECONDS - 60, False), ("running", DEAD_SECONDS + 1, True)])
def test_next_writer_removes_what_is_old(state, age, removed, tmp_path):
    path = Gone(tmp_path).leave(age, state)
    Writer(tmp_path)
    assert path.exists() != removed


def test_next_writer_removes_what_is_half_and_leaves_what_is_not_ours(tmp_path):
    gone = Gone(tmp_path)
    old = 2 * DEAD_SECONDS
    half = gone.leave(old, data="{")
    temporary = gone.leave(old, name=f".status-{gone.pid}-abc.tmp", data="{")
    others = [gone.leave(old, name="status.json"), gone.leave(old, name="notes.txt"),
              gone.leave(old, name="status-1x.json")]
    mine = tmp_path / f"status-{os.getpid()}.json"
    mine.write_text(json.dumps(Tracker().snapshot()))
    os.utime(mine, (time.time() - old,) * 2)
    (tmp_path / f"status-{gone.pid + 1}.json").mkdir()
    remove_old(tmp_path)
    assert not half.exists() and not temporary.exists()
    assert all(path.exists() for path in others) and mine.exists()      # a process that hangs for hours still lives


def test_second_writer_of_the_process_replaces_the_file(tmp_path):
    two_workers(quick(tmp_path)).close()
    tracker = two_workers(quick(tmp_path))
    tracker.partition_gpu_start("B", 0, 1)
    assert shown(read_status(tmp_path), 1) == ("proving", "B", 0)
