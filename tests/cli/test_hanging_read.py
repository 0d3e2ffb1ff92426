"""A disk that does not answer, seen from outside: the status names the file, and the process can be stopped."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .common import HERE, REAL, ROOT, environment

SECTOR = ROOT / "fixtures/sectors/2KiB/s-t01000-1"
HANGS = "sc-02-data-tree-r-last.dat"


def status(folder, *arguments):
    return subprocess.run([*REAL, "status", *arguments], env=environment(folder), capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_hanging_read_is_named_and_can_be_stopped(tmp_path):
    process = subprocess.Popen(
        [sys.executable, str(HERE / "slow_disk.py"), HANGS, "prove", "snap", str(SECTOR), "--test-params", "--device", "cpu",
         "--progress", "none"], env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until, found = time.monotonic() + 120, []
        while not found and time.monotonic() < until:
            assert process.poll() is None, process.communicate()
            found = json.loads(status(tmp_path, "--json").stdout)["blocked"]
            time.sleep(0.2)
        (read, *_) = found
        assert read["operation"] == "read" and os.path.basename(read["path"]) == HANGS and read["seconds"] >= 5
        assert f"blocked: read {read['path']}" in status(tmp_path).stdout
        shown = json.loads(status(tmp_path, "--json").stdout)
        assert shown["loading"][0]["kind"] == "snap" and shown["gpu_workers"][0]["state"] == "idle"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=60)
        assert process.returncode == 143 and time.monotonic() - began < 5, said
        assert json.loads(out)["exit"] == 143 and b"Traceback" not in said
    finally:
        process.kill()
    assert not [*tmp_path.glob("state/cuzk/locks/*"), *tmp_path.glob("status/.*.tmp")]
