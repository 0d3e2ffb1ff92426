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

from cuzk_cli import __version__
from cuzk_cli.status import read_status

from ..daemon.test_service import until
from .common import HERE, answer_of, cuzk, environment
from .fixed import SECTOR, STORAGE, VANILLA, commitments

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


# ---- submit, wait, jobs
def test_submit_and_wait(daemon, folder):
    submitted = answer_of(daemon.run("submit", "snap", "s-t01000-1", str(SECTOR).replace("-1", "-2")))["results"]
    assert [r["sector"] for r in submitted] == ["s-t01000-1", "s-t01000-2"]
    ids = [r["job_id"] for r in submitted]
    found = answer_of(daemon.run("wait", *ids))
    assert [r["ok"] for r in found["results"]] == [True, True] and len(found["results"][0]["proof"]) == 384
    again = daemon.run("wait", ids[0], "--format", "hex", "-o", "-")
    assert again.stdout.decode().strip() == found["results"][0]["proof"]
    assert answer_of(daemon.run("wait", ids[0], "--format", "raw", "-o", "p.bin"))["results"][0]["file"] == "p.bin"
    assert (folder / "p.bin").read_bytes().hex() == found["results"][0]["proof"]
    assert daemon.run("wait", ids[0], "-o", "p.bin").returncode == 18
    assert daemon.run("wait", ids[0], "-o", "p.bin", "--force").returncode == 0
    listed = daemon.run("jobs", "list")
    assert [line.split()[0] for line in listed.stdout.decode().splitlines()] == ids and b"  done  1/1" in listed.stdout
    assert [job["job_id"] for job in json.loads(daemon.run("jobs", "list", "--json").stdout)["jobs"]] == ids


def test_vanilla_proofs_are_sent(daemon):
    for given, stdin in ((VANILLA, b""), ("-", VANILLA.read_bytes())):
        done = daemon.run("submit", "snap", "--vanilla", given, *commitments(), stdin=stdin)
        id = answer_of(done)["results"][0]["job_id"]
        assert answer_of(daemon.run("wait", id))["ok"]
    assert answer_of(daemon.run("submit", "snap", "--vanilla", "none.json"))["exit"] == 10


def test_the_same_id_twice(holding, folder):
    first = answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))["results"][0]
    again = answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))["results"][0]
    assert (first["joined"], again["joined"], again["job_id"]) == (False, True, "a")
    other = answer_of(holding.run("submit", "snap", "s-t01000-2", "--request-id", "a"))
    assert other["exit"] == 15 and "another request" in other["results"][0]["errors"][0]["message"]


def test_a_timeout(holding, folder):
    id = answer_of(holding.run("submit", "snap", "s-t01000-1"))["results"][0]["job_id"]
    found = answer_of(holding.run("wait", id, "--timeout", "300ms"))
    assert found["exit"] == 17 and "it goes on" in found["results"][0]["errors"][0]["message"]
    (folder / "hold").unlink()
    assert answer_of(holding.run("wait", id, "--timeout", "30s"))["ok"]


def test_cancel(holding):
    id = answer_of(holding.run("submit", "snap", "s-t01000-1"))["results"][0]["job_id"]
    assert answer_of(holding.run("cancel", id, "--reason", "not needed"))["results"][0]["was_running"] is True
    assert answer_of(holding.run("cancel", id))["results"][0]["was_running"] is False
    found = answer_of(holding.run("wait", id))
    assert found["exit"] == 130 and "not needed" in found["results"][0]["errors"][0]["message"]
    assert answer_of(holding.run("cancel", "none"))["exit"] == 10


def test_wrong_paths_and_options(daemon, folder):
    (folder / "s-t01000-1").mkdir()
    found = answer_of(daemon.run("submit", "snap", "./s-t01000-1"))
    assert found["exit"] == 10 and "a path in the daemon's storage folders" in found["results"][0]["errors"][0]["message"]
    for arguments in (["submit", "snap"], ["submit", "snap", "x"], ["submit", "snap", "s-t01000-1", "--priority", "x"],
                      ["submit", "snap", "s-t01000-1", "--deadline", "x"], ["wait", "a", "--timeout", "x"],
                      ["submit", "snap", "s-t01000-1", "s-t01000-2", "--request-id", "a"],
                      ["wait", "a", "b", "-o", "-"], ["drain", "--undo", "--stop"], ["wait", "a", "--address", "x"]):
        assert answer_of(daemon.run(*arguments))["exit"] == 2, arguments


def test_no_daemon(folder):
    for arguments in (["submit", "snap", "s-t01000-1"], ["wait", "a"], ["cancel", "a"], ["jobs", "list"], ["drain"]):
        done = cuzk(folder, *arguments, command=FAKE)
        assert answer_of(done)["exit"] == 15 and b"start one with: cuzk daemon" in done.stderr


def test_clients_start_without_jax_and_numpy(daemon):
    code = ("import sys; sys.argv = ['cuzk', 'jobs', 'list']; from cuzk_cli.cli import main; code = main._run(); "
            "assert not {'jax', 'numpy', 'numba'} & set(sys.modules), 'slow'; sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", code], env=environment(daemon.folder, **daemon.env), capture_output=True)
    assert done.returncode == 0, done.stderr


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
    assert [job["state"] for job in json.loads(holding.run("jobs", "list", "--json").stdout)["jobs"]] == ["done", "done"]
    assert answer_of(holding.run("drain", "--stop"))["ok"]
    assert holding.process.wait(10) == 0


def test_killed(holding, folder):
    """Nothing of it is in the way of the next one, and its clients are told."""
    ids = [answer_of(holding.run("submit", "snap", f"s-t01000-{1 + n % 2}", "--request-id", str(n)))["results"][0]["job_id"]
           for n in range(3)]
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


# ---- prove --daemon
def prove(daemon, *arguments, **more):
    return daemon.run("prove", "snap", *arguments, "--progress", "none", **more)


def test_prove_by_a_daemon(daemon, folder):
    for mode in ("require", "auto"):
        done = prove(daemon, str(SECTOR), "--daemon", mode, "-o", f"{mode}.json")
        (result,) = answer_of(done)["results"]
        assert result["daemon"].endswith("cuzk.sock") and json.loads((folder / f"{mode}.json").read_text())["ok"]
        assert b"proved by the daemon at unix:" in done.stderr
    many = answer_of(prove(daemon, "s-t01000-1", "s-t01000-2", "--storage", str(STORAGE), "--out-dir", "d", "--daemon", "require"))
    assert [Path(r["file"]).name for r in many["results"]] == ["s-t01000-1.snap.json", "s-t01000-2.snap.json"]
    assert len(read_status(folder / "s")["processes"]) == 1         # those that ask have no status of their own
    by_bytes = answer_of(prove(daemon, "--vanilla", str(VANILLA), *commitments(), "--daemon", "require"))
    assert by_bytes["ok"]


@pytest.mark.parametrize("change, said", [
    (["--params", "elsewhere"], "its parameters are in"), (["--workers", "2"], "--workers cannot be told to it"),
    (["--monolithic"], "--monolithic"), (["--insecure-randomness", "x"], "--insecure-randomness"),
    (["--test-params"], "its parameters are in"), (["--device", "cpu"], "--device")])
def test_a_daemon_that_would_do_something_else(daemon, change, said):
    found = answer_of(prove(daemon, str(SECTOR), "--daemon", "require", *change))
    assert found["exit"] == 2 and said in found["errors"][0]["message"]


def test_paths_and_files_that_stay_with_us(daemon, folder):
    (folder / "o.json").write_text("")
    kept = answer_of(prove(daemon, str(SECTOR), "--daemon", "require", "-o", "o.json"))
    assert kept["exit"] == 2 and "--force replaces it" in kept["errors"][0]["message"]
    outside = answer_of(prove(daemon, str(folder / "s-t01000-1"), "--daemon", "require"))
    assert outside["exit"] == 2 and "is not in its storage folders" in outside["errors"][0]["message"]


def test_require_without_one(folder):
    done = cuzk(folder, "prove", "snap", str(SECTOR), "--daemon", "require", command=FAKE)
    assert answer_of(done)["exit"] == 15


def test_a_stopped_client_cancels_its_job(holding):
    client = subprocess.Popen([*FAKE, "prove", "snap", str(SECTOR), "--daemon", "require"], cwd=holding.folder,
                              env=environment(holding.folder, **holding.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    jobs = lambda: json.loads(holding.run("jobs", "list", "--json").stdout)["jobs"]
    until(jobs)
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=20)
    assert client.returncode == 130 and json.loads(out)["exit"] == 130
    (job,) = jobs()
    assert job["state"] == "cancelled" and "stopped by SIGINT" in job["error"]


def test_the_version_is_compared(daemon):
    assert __version__ in daemon.run("--version").stdout.decode()
    script = ("import sys, cuzk_cli; cuzk_cli.__version__ = '0.0.1'; sys.argv = ['cuzk', 'prove', 'snap', sys.argv[1], "
              "'--daemon', 'require']; from cuzk_cli.cli.main import run; run()")
    done = subprocess.run([sys.executable, "-c", script, str(SECTOR)], env=environment(daemon.folder, **daemon.env),
                          capture_output=True)
    assert json.loads(done.stdout)["exit"] == 2 and f"its version is {__version__}, ours 0.0.1" in done.stderr.decode()
