"""Locks of GPUs: their names from a driver that is replaced, held by processes and let go, waited for within bounds."""
import subprocess
import sys
import threading

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.prove.gpulock import GpuLocks, visible_gpus
from cuzk_cli.prove.joblock import locks

NAMES = ["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"]
HOLD = """
import sys
from cuzk_cli.prove.gpulock import GpuLocks
GpuLocks(sys.argv[1:]).hold()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


class Driver:
    """libcuda of two GPUs."""

    def __init__(self, result: int = 0):
        self.result = result

    def cuInit(self, flags):
        return self.result

    def cuDeviceGetCount(self, count):
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = 40 + ordinal
        return 0

    def cuDeviceGetUuid(self, name, device):
        name._obj[:] = bytes(16 * (device.value - 40) + i for i in range(16))
        return 0


@pytest.fixture
def other():
    """Starts another process that holds GPUs."""
    started = []

    def start(*names):
        process = subprocess.Popen([sys.executable, "-c", HOLD, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process
    yield start
    for process in started:
        process.kill()
        process.wait()


def test_gpus_are_named_as_the_driver_names_them():
    assert visible_gpus(Driver()) == NAMES
    assert visible_gpus(Driver(100)) == []      # CUDA_ERROR_NO_DEVICE


def test_the_cpu_has_no_lock():
    mine = GpuLocks([])
    assert mine.hold() and not locks().exists()
    mine.let_go()


def test_held_until_nobody_here_needs_them(other):
    mine = GpuLocks(NAMES)
    assert mine.hold() and mine.hold()
    mine.let_go()
    with pytest.raises(CuzkError) as raised:
        GpuLocks(NAMES[1:], patience=0.0).hold()
    assert raised.value.exit == Exit.DEVICE and NAMES[1] in str(raised.value)
    mine.let_go()
    assert list(locks().iterdir()) == []
    other(*NAMES)       # and another process gets them


def test_another_process_is_named_waited_for_and_its_death_frees(other):
    theirs = other(NAMES[1])
    told, mine = [], GpuLocks(NAMES)
    with pytest.raises(CuzkError) as raised:
        GpuLocks(NAMES, patience=0.3).hold(waiting=lambda gpu, owner: told.append((gpu, owner)))
    assert f"process {theirs.pid} uses it" in str(raised.value) and set(told) == {(NAMES[1], theirs.pid)}
    assert [path.stem for path in locks().iterdir()] == NAMES[1:]     # none was kept while it waited
    held = []
    thread = threading.Thread(target=lambda: held.append(mine.hold()))
    thread.start()
    theirs.kill()
    thread.join(60)
    assert held == [True]
    mine.close()


def test_a_job_that_ends_no_longer_waits(other):
    other(NAMES[0])
    assert GpuLocks(NAMES).hold(wanted=lambda: False) is False


def test_a_folder_that_cannot_be_written_keeps_nobody_out(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    warned = []
    with GpuLocks(NAMES[:1], warned.append).held():
        assert "cannot be locked" in warned[0]
