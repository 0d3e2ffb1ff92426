"""`cuzk submit | wait | cancel | jobs | drain` and `prove --daemon` by the real code, with a daemon in a thread."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuzk_cli.cli import remote
from cuzk_cli.errors import Exit, fail
from cuzk_cli.prove import api, joblock, journal

from ..daemon import fake
from .common import environment
from .fixed import SECTOR, STORAGE, VANILLA, commitments


@pytest.fixture
def daemon(inside, monkeypatch, tmp_path):
    """A Running daemon that the commands find. daemon.run(*arguments, stdin=b"") -> Answer."""
    params = os.environ["FIL_PROOFS_PARAMETER_CACHE"]
    with fake.running([str(STORAGE)], params=os.path.realpath(params)) as running:
        monkeypatch.setenv("CUZK_DAEMON", str(running.address))
        monkeypatch.chdir(tmp_path)
        running.run = inside
        yield running


@pytest.fixture
def holding(daemon):
    """It finishes nothing until `prover.going` is set."""
    daemon.prover.going.clear()
    return daemon


def answer_of(found) -> dict:
    """The one object on standard output, with the exit code."""
    assert found.json["exit"] == found.code and found.json["ok"] == (found.code == 0)
    assert found.json["schema_version"] == 1
    return found.json


# ---- submit, wait, jobs
def test_submit_and_wait(daemon, tmp_path):
    submitted = answer_of(daemon.run("submit", "snap", "s-t01000-1", str(SECTOR).replace("-1", "-2")))["results"]
    assert [r["sector"] for r in submitted] == ["s-t01000-1", "s-t01000-2"]
    ids = [r["job_id"] for r in submitted]
    found = answer_of(daemon.run("wait", *ids))
    assert [r["ok"] for r in found["results"]] == [True, True] and len(found["results"][0]["proof"]) == 384
    again = daemon.run("wait", ids[0], "--format", "hex", "-o", "-")
    assert again.out.decode().strip() == found["results"][0]["proof"]
    assert answer_of(daemon.run("wait", ids[0], "--format", "raw", "-o", "p.bin"))["results"][0]["file"] == "p.bin"
    assert (tmp_path / "p.bin").read_bytes().hex() == found["results"][0]["proof"]
    assert daemon.run("wait", ids[0], "-o", "p.bin").code == 18
    assert daemon.run("wait", ids[0], "-o", "p.bin", "--force").code == 0
    listed = daemon.run("jobs", "list")
    assert [line.split()[0] for line in listed.out.decode().splitlines()] == ids and b"  done  1/1" in listed.out
    assert daemon.run("jobs").out.split()[:4] == listed.out.split()[:4]
    assert [job["job_id"] for job in json.loads(daemon.run("jobs", "list", "--json").out)["jobs"]] == ids


def test_vanilla_proofs_are_sent(daemon):
    for given, stdin in ((VANILLA, b""), ("-", VANILLA.read_bytes())):
        done = daemon.run("submit", "snap", "--vanilla", given, *commitments(), stdin=stdin)
        id = answer_of(done)["results"][0]["job_id"]
        assert answer_of(daemon.run("wait", id))["ok"]
    assert answer_of(daemon.run("submit", "snap", "--vanilla", "none.json"))["exit"] == 10


def test_posts(daemon):
    randomness = "11" * 31 + "00"
    for kind, sectors in (("winning", ["s-t01000-1"]), ("window", ["s-t01000-1", str(SECTOR).replace("-1", "-2")])):
        submitted = answer_of(daemon.run("submit", kind, *sectors, "--randomness", randomness))["results"][0]
        assert submitted["kind"] == kind
        assert answer_of(daemon.run("wait", submitted["job_id"]))["results"][0]["kind"] == kind
        done = daemon.run("prove", kind, *sectors, "--storage", str(STORAGE), "--randomness", randomness,
                          "--daemon", "require", "--progress", "none")
        assert answer_of(done)["results"][0]["daemon"] == str(daemon.address)
    assert daemon.run("submit", "winning", "s-t01000-1").code == 2
    assert answer_of(daemon.run("submit", "window", "/etc/s-t01000-1", "--randomness", randomness))["exit"] == 10


def test_the_same_id_twice(holding, tmp_path):
    first = answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))["results"][0]
    again = answer_of(holding.run("submit", "snap", "s-t01000-1", "--request-id", "a"))["results"][0]
    assert (first["joined"], again["joined"], again["job_id"]) == (False, True, "a")
    other = answer_of(holding.run("submit", "snap", "s-t01000-2", "--request-id", "a"))
    assert other["exit"] == 15 and "another request" in other["results"][0]["errors"][0]["message"]


def test_a_timeout(holding, tmp_path):
    id = answer_of(holding.run("submit", "snap", "s-t01000-1"))["results"][0]["job_id"]
    found = answer_of(holding.run("wait", id, "--timeout", "300ms"))
    assert found["exit"] == 17 and "it goes on" in found["results"][0]["errors"][0]["message"]
    holding.prover.going.set()
    assert answer_of(holding.run("wait", id, "--timeout", "30s"))["ok"]


def test_cancel(holding):
    id = answer_of(holding.run("submit", "snap", "s-t01000-1"))["results"][0]["job_id"]
    assert answer_of(holding.run("cancel", id, "--reason", "not needed"))["results"][0]["was_running"] is True
    assert answer_of(holding.run("cancel", id))["results"][0]["was_running"] is False
    found = answer_of(holding.run("wait", id))
    assert found["exit"] == 130 and "not needed" in found["results"][0]["errors"][0]["message"]
    assert answer_of(holding.run("cancel", "none"))["exit"] == 10


def test_wrong_paths_and_options(daemon, tmp_path):
    (tmp_path / "s-t01000-1").mkdir()
    found = answer_of(daemon.run("submit", "snap", "./s-t01000-1"))
    (result,) = found["results"]
    assert found["exit"] == 10 and "a path in the daemon's storage folders" in result["errors"][0]["message"]
    for arguments in (["submit", "snap"], ["submit", "snap", "x"], ["submit", "snap", "s-t01000-1", "--priority", "x"],
                      ["submit", "snap", "s-t01000-1", "--deadline", "x"], ["wait", "a", "--timeout", "x"],
                      ["submit", "snap", "s-t01000-1", "s-t01000-2", "--request-id", "a"],
                      ["wait", "a", "b", "-o", "x"], ["drain", "--undo", "--stop"], ["wait", "a", "--address", "x"]):
        assert answer_of(daemon.run(*arguments))["exit"] == 2, arguments


def test_no_daemon(inside, monkeypatch, tmp_path):
    monkeypatch.setenv("CUZK_DAEMON", f"unix:{os.path.relpath(tmp_path / 's')}")
    for arguments in (["submit", "snap", "s-t01000-1"], ["wait", "a"], ["cancel", "a"], ["drain"]):
        done = inside(*arguments)
        assert answer_of(done)["exit"] == 15 and "start one with: cuzk daemon" in done.lines[0]


def test_clients_start_without_jax_and_numpy(daemon, tmp_path):
    code = ("import sys; sys.argv = ['cuzk', 'jobs', 'list']; from cuzk_cli.cli import main; code = main._run(); "
            "assert not {'jax', 'numpy', 'numba'} & set(sys.modules), 'slow'; sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False,
                          env=environment(tmp_path, CUZK_DAEMON=str(daemon.address)))
    assert done.returncode == 0, done.stderr


# ---- prove --daemon
def prove(daemon, *arguments, **more):
    return daemon.run("prove", "snap", *arguments, "--progress", "none", **more)


def test_prove_by_a_daemon(daemon, tmp_path):
    for mode in ("require", "auto"):
        done = prove(daemon, str(SECTOR), "--daemon", mode, "-o", f"{mode}.json")
        (result,) = answer_of(done)["results"]
        assert result["daemon"] == str(daemon.address) and json.loads((tmp_path / f"{mode}.json").read_text())["ok"]
        assert done.lines == [f"cuzk: proved by the daemon at {daemon.address}"]
    many = answer_of(prove(daemon, "s-t01000-1", "s-t01000-2", "--storage", str(STORAGE), "--out-dir", "d",
                           "--daemon", "require"))
    assert [Path(r["file"]).name for r in many["results"]] == ["s-t01000-1.snap.json", "s-t01000-2.snap.json"]
    assert os.listdir(tmp_path / "CUZK_STATUS_DIR") == []           # those that ask have no status of their own
    by_bytes = answer_of(prove(daemon, "--vanilla", str(VANILLA), *commitments(), "--daemon", "require"))
    assert by_bytes["ok"]


@pytest.mark.parametrize("change, said", [
    (["--params", "elsewhere"], "its parameters are in"), (["--workers", "2"], "--workers cannot be told to it"),
    (["--monolithic"], "--monolithic"), (["--insecure-randomness", "x"], "--insecure-randomness"),
    (["--test-params"], "its parameters are in"), (["--device", "cpu"], "--device")])
def test_a_daemon_that_would_do_something_else(daemon, change, said):
    found = answer_of(prove(daemon, str(SECTOR), "--daemon", "require", *change))
    assert found["exit"] == 2 and said in found["errors"][0]["message"]


def test_paths_and_files_that_stay_with_us(daemon, tmp_path):
    (tmp_path / "o.json").write_text("")
    kept = answer_of(prove(daemon, str(SECTOR), "--daemon", "require", "-o", "o.json"))
    assert kept["exit"] == 2 and "--force replaces it" in kept["errors"][0]["message"]
    outside = answer_of(prove(daemon, str(tmp_path / "s-t01000-1"), "--daemon", "require"))
    assert outside["exit"] == 2 and "is not in its storage folders" in outside["errors"][0]["message"]


def test_require_without_one(inside, monkeypatch, tmp_path):
    monkeypatch.setenv("CUZK_DAEMON", f"unix:{os.path.relpath(tmp_path / 's')}")
    assert answer_of(inside("prove", "snap", str(SECTOR), "--daemon", "require"))["exit"] == 15


def test_the_version_is_compared(daemon, monkeypatch):
    monkeypatch.setattr(remote, "__version__", "0.0.1")
    found = answer_of(prove(daemon, str(SECTOR), "--daemon", "require"))
    assert found["exit"] == 2 and "its version is " in found["errors"][0]["message"]


def test_auto_says_why_not(daemon, monkeypatch):
    """And then this process proves."""
    def own(*given, **more):
        raise fail(Exit.PARAMETERS, "prove here")

    monkeypatch.setattr(api, "prove", own)
    for arguments, said in ((["--params", "elsewhere"], "its parameters are in"), (["--workers", "2"], None)):
        done = prove(daemon, str(SECTOR), *arguments)
        assert done.code == 11
        notes = [line for line in done.lines if "is not used" in line]
        assert (len(notes) == 1 and said in notes[0]) if said else not notes
    daemon.client().drain(wait=False)
    assert any("it takes no new jobs" in line for line in prove(daemon, str(SECTOR)).lines)
    assert not any("not used" in line for line in prove(daemon, str(SECTOR), "--daemon", "never").lines)


# ---- jobs that were stopped
PROOFS = [bytes([k]) * 192 for k in range(3)]


def test_what_is_kept_of_stopped_jobs(inside):
    for name in ("snap-1000-1-aaaaaaaaaaaa", "snap-1000-2-bbbbbbbbbbbb"):
        for k in (2, 0):
            journal.Journal(name, name.encode(), b"key").keep(k, PROOFS[k])
    listed = json.loads(inside("jobs", "list", "--json").out)
    assert listed["daemon"] is False and not listed["jobs"]
    assert [(job["job_id"], job["partitions"], job["owner_pid"]) for job in listed["kept"]] == [
        ("snap-1000-1-aaaaaaaaaaaa", [0, 2], None), ("snap-1000-2-bbbbbbbbbbbb", [0, 2], None)]
    assert inside("jobs", "list").out.count(b"partitions 0,2") == 2
    shown = json.loads(inside("jobs", "show", "snap-1000-1-aaaaaaaaaaaa").out)
    assert [job["partitions"] for job in shown["kept"]] == [[0, 2]]
    lock = joblock.JobLock("snap-1000-2-bbbbbbbbbbbb")
    assert lock.acquire() is None
    found = inside("jobs", "clean", "snap-1000-2-bbbbbbbbbbbb")
    assert found.code == 15 and str(os.getpid()) in found.lines[0]
    assert inside("jobs", "clean", "--all").code == 0
    assert [job.job_id for job in journal.kept()] == ["snap-1000-2-bbbbbbbbbbbb"]
    lock.release()
    assert inside("jobs", "clean", "snap-1000-2-bbbbbbbbbbbb").code == 0 and not journal.kept()


def test_kept_jobs_that_are_not_there(inside):
    assert inside("jobs", "show", "x").code == 10
    assert inside("jobs", "clean", "x").code == 10
    assert inside("jobs", "clean").code == inside("jobs", "clean", "--all", "x").code == 2
