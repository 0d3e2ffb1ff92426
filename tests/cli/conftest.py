"""Run the real command line inside the test's own process: what needs no device, no signal and no descriptors."""
from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from typing import NamedTuple

import pytest

from cuzk_cli.cli import main, streams

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:       # in a shell's background; our children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Answer(NamedTuple):
    """What a call left: its exit code, standard output, and standard error without warnings and progress."""

    code: int
    out: bytes
    lines: list[str]
    warnings: list[str]

    @property
    def json(self) -> dict:
        """The one line of standard output."""
        assert self.out.endswith(b"\n") and self.out.count(b"\n") == 1, self.out
        return json.loads(self.out)


@pytest.fixture
def inside(capfdbinary, monkeypatch, tmp_path):
    """inside(*arguments, stdin=b""): `cuzk ARGUMENTS` by the real code; never a traceback on standard error."""
    for name in ("CUZK_STORAGE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CUZK_STATUS_DIR", "XDG_STATE_HOME", "FIL_PROOFS_PARAMETER_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(main, "catch_signals", lambda: None)        # they are pytest's

    def run(*arguments, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["cuzk", *map(str, arguments)])
        monkeypatch.setattr(streams, "_answered", False)
        before = os.dup(0)
        try:
            with tempfile.TemporaryFile() as file:
                file.write(stdin)
                file.seek(0)
                os.dup2(file.fileno(), 0)
                code = main._run()
        finally:
            os.dup2(before, 0)
            os.close(before)
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err, err.decode()
        said = err.decode().splitlines()
        return Answer(code, out, [line for line in said if line.startswith("cuzk: ") and ": warning: " not in line],
                      [line for line in said if ": warning: " in line])

    return run
