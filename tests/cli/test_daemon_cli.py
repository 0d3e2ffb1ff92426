"""`cuzk daemon` and its clients as processes, with a prover that takes no time."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from cuzk_cli.status import read_status

from ..daemon.test_service import until
from .common import HERE, answer_of, cuzk, environment
from .fixed import SECTOR, STORAGE

FAKE = [sys.executable, str(HERE / "fake_daemon.py")]


class Daemon:
    """One in a process; `run` asks it."""

    def __init__(self, folder: Path, *arguments: str, **env):
        self.folder = folder
        self.env = {"CUZK_STATUS_DIR": str(folder / "s"), "FIL_PROOFS_PARAMETER_CACHE": str(folder / "params"), **env}
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [*FAKE, "daemon", *arguments], env=environment(folder, **self.env), cwd=folder, stdout=subprocess.PIPE,
            stderr=open(self.log, "wb"), stdin=subprocess.DEVNULL)
        until(lambda: self.process.poll() is not None or "listening on" in self.said)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def run(self, *arguments, **more):
        return cuzk(self.folder, *arguments, command=FAKE, env=self.env | more.pop("env", {}), **more)

    def signal(self, *numbers: int) -> tuple[int, float]:
        """(exit code, seconds)."""
        started = time.monotonic()
        for number in numbers:
            self.process.send_signal(number)
            time.sleep(0.2 if len(numbers) > 1 else 0)
        return self.process.wait(20), time.monotonic() - started


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="cuzk") as name:        # a socket's path must be short
        yield Path(name)


@pytest.fixture
def start(folder):
    found = []

    def start(*arguments, **env) -> Daemon:
        found.append(Daemon(folder, *arguments, **env))
        return found[-1]

    yield start
    for daemon in found:
        if daemon.process.poll() is None:
            daemon.process.kill()
        daemon.process.wait()
        assert "Traceback" not in daemon.said


@pytest.fixture
def daemon(start):
    return start("--storage", str(STORAGE))


@pytest.fixture
def holding(start, folder):
    """A daemon that finishes nothing until the file `hold` is removed."""
    (folder / "hold").write_text("")
    return start("--storage", str(STORAGE), FAKE_HOLDS=str(folder / "hold"))


# ---- the daemon itself
def test_what_it_says(daemon):
    assert f"cuzk: listening on unix:{daemon.folder}/s/daemon/cuzk.sock after " in daemon.said
    assert "cuzk: warning: a warning" in daemon.said
    daemon.run("submit", "snap", "s-t01000-1", "--request-id", "a")
    until(lambda: "cuzk: a (s-t01000-1): done after " in daemon.said)
    (process,) = read_status(daemon.folder / "s")["processes"]
    assert process["pid"] == daemon.process.pid and process["state"] == "fresh"


def test_options_that_are_wrong(folder):
    for arguments in (["--listen", "x"], ["--storage", "none"], ["--device", "x"], ["--params", "a", "--test-params"],
                      ["--status-mode", "9"]):
        assert answer_of(cuzk(folder, "daemon", *arguments, command=FAKE))["exit"] == 2, arguments


def test_a_second_one(daemon):
    found = answer_of(daemon.run("daemon"))
    assert found["exit"] == 15 and f"process {daemon.process.pid} listens there" in found["errors"][0]["message"]


def test_tcp(start):
    daemon = start("--listen", "127.0.0.1:0", "--storage", str(STORAGE))
    address = daemon.said.split("listening on ")[1].split()[0]
    assert answer_of(daemon.run("submit", "snap", "s-t01000-1", "--address", address))["ok"]
    assert "warning: 127" not in daemon.said
    assert answer_of(daemon.run("drain", env={"CUZK_DAEMON": address}))["unfinished"] in (0, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_with_nothing_to_do(daemon, number):
    code, seconds = daemon.signal(number)
    assert code == 0 and seconds < 5 and f"stopped by {number.name}, 0 jobs not finished" in daemon.said
    assert os.listdir(daemon.folder / "s" / "daemon") == []
    (process,) = read_status(daemon.folder / "s")["processes"]
    assert process["state"] == "ended"


def test_a_signal_loses_no_one_who_waits(holding):
    answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))
    waiting = subprocess.Popen([*FAKE, "wait", "a"], env=environment(holding.folder, **holding.env), cwd=holding.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.0)
    code, seconds = holding.signal(signal.SIGTERM)
    assert code == 143 and seconds < 5 and "1 jobs not finished" in holding.said
    out, _ = waiting.communicate(timeout=20)
    assert json.loads(out)["exit"] == 15 and "the daemon stops" in json.loads(out)["results"][0]["errors"][0]["message"]
    answer = read_status(holding.folder / "s")
    assert [job["finished"] for job in answer["pipelines"]] == [True] and answer["gpu_workers"] == []


def test_a_prover_that_does_not_end_is_left(start, folder):
    (folder / "hold").write_text("")
    daemon = start("--storage", str(STORAGE), FAKE_HOLDS=str(folder / "hold"), FAKE_HANGS="1")
    answer_of(daemon.run("submit", "snap", "s-t01000-1"))
    code, seconds = daemon.signal(signal.SIGTERM)
    assert code == 143 and seconds < 5


def test_a_second_signal_ends_at_once(start, folder):
    (folder / "hold").write_text("")
    daemon = start("--storage", str(STORAGE), FAKE_HOLDS=str(folder / "hold"), FAKE_HANGS="1")
    code, seconds = daemon.signal(signal.SIGTERM, signal.SIGTERM)
    assert code == 143 and seconds < 1.5


def test_drain(holding, folder):
    answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))
    assert answer_of(holding.run("drain", "--no-wait"))["unfinished"] == 1
    assert answer_of(holding.run("submit", "snap", "s-t01000-2"))["exit"] == 15
    assert answer_of(holding.run("drain", "--undo"))["ok"]
    assert answer_of(holding.run("submit", "snap", "s-t01000-2", "--request-id", "b"))["ok"]
    (folder / "hold").unlink()
    assert answer_of(holding.run("drain"))["ok"]
    jobs = json.loads(holding.run("jobs", "list", "--json").stdout)["jobs"]
    assert [job["state"] for job in jobs] == ["done", "done"]
    assert answer_of(holding.run("drain", "--stop"))["ok"]
    assert holding.process.wait(10) == 0


def test_killed(holding, folder):
    """Nothing of it is in the way of the next one, and its clients are told."""
    ids = ["0", "1", "2"]
    for id, sector in zip(ids, (1, 2, 1)):
        answer_of(holding.run("submit", "snap", f"s-t01000-{sector}", "--request-id", id))
    waiting = subprocess.Popen([*FAKE, "wait", *ids], env=environment(folder, **holding.env), cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.0)
    holding.process.kill()
    holding.process.wait()
    out, _ = waiting.communicate(timeout=30)
    assert {r["exit"] for r in json.loads(out)["results"]} == {15}
    (folder / "hold").unlink()
    again = Daemon(folder, "--storage", str(STORAGE))
    try:
        assert answer_of(again.run("submit", "snap", "s-t01000-1", "--request-id", "0"))["ok"]
        assert answer_of(again.run("wait", "0"))["ok"]
    finally:
        assert again.signal(signal.SIGTERM)[0] == 0


# ---- a client
def test_a_stopped_client_cancels_its_job(holding):
    client = subprocess.Popen([*FAKE, "prove", "snap", str(SECTOR), "--daemon", "require"], cwd=holding.folder,
                              env=environment(holding.folder, **holding.env), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    jobs = lambda: json.loads(holding.run("jobs", "list", "--json").stdout)["jobs"]
    until(jobs)
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=20)
    assert client.returncode == 130 and json.loads(out)["exit"] == 130
    (job,) = jobs()
    assert job["state"] == "cancelled" and "stopped by SIGINT" in job["error"]
