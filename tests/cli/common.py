"""Run the command line as a process, as a shell does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FAKE = [sys.executable, str(HERE / "fake_cuzk.py")]
REAL = [sys.executable, "-m", "cuzk_cli"]


def environment(folder: Path, **more: str) -> dict:
    """Nothing of the user's own: state, status and caches lie in `folder`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CUZK_", "XDG_", "FIL_PROOFS_", "COVERAGE"))
    }
    return {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(folder / "state"),
        "HOME": str(folder),
        "CUZK_STATUS_DIR": str(folder / "status"),
        "COLUMNS": "200",
        **more,
    }


def cuzk(folder: Path, *arguments: str, command=FAKE, stdin: bytes = b"", **more) -> subprocess.CompletedProcess:
    """`cuzk ARGUMENTS`: standard output and error as bytes."""
    env = environment(folder, **more.pop("env", {}))
    return subprocess.run(
        [*command, *map(str, arguments)], input=stdin, capture_output=True, cwd=folder, env=env, timeout=60, **more
    )


def shell(folder: Path, line: str) -> subprocess.CompletedProcess:
    """A line for bash with pipefail, `cuzk` being the fake one."""
    function = f'cuzk() {{ {shlex.join(FAKE)} "$@"; }}\n'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", function + line],
        capture_output=True,
        cwd=folder,
        env=environment(folder),
        timeout=60,
    )


def answer_of(done: subprocess.CompletedProcess) -> dict:
    """The one object on standard output: one line, with the process's exit code. No traceback on standard error."""
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1, done
    found = json.loads(done.stdout)
    assert found["exit"] == done.returncode and found["ok"] == (done.returncode == 0) and found["schema_version"] == 1
    assert b"Traceback" not in done.stderr
    return found
