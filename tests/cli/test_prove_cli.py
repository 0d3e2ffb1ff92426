"""`cuzk prove snap` by the real code. Most tests have a device that gives the published proof; the slow ones prove."""
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from cuzk_cli.cli import output
from cuzk_cli.errors import Exit, fail
from cuzk_cli.kernels import runtime
from cuzk_cli.params.format import read_verifying_key
from cuzk_cli.prove import memory, snap, verifier
from cuzk_cli.sectors.commitments import to_cid
from cuzk_cli.status import read_status

from ..prove.pool import Pool
from .common import REAL, environment
from .fixed import FACTS, FIXTURES, OTHER, PROOF, SECTOR, STORAGE, VANILLA, VK, commitments, copy

runtime.setup("cpu")

from cuzk_cli.prove import engine as engines  # noqa: E402  (imports JAX, which is set up now)

NAMES = ("comm_r_old", "comm_r_new", "comm_d_new")
BAD = PROOF[::-1]


@pytest.fixture
def cuzk(inside, monkeypatch):
    """`cuzk prove snap ARGUMENTS` that compiles nothing and starts no process."""
    monkeypatch.setattr(engines, "SynthesisPool", Pool)
    monkeypatch.setattr(engines.Engine, "warm", lambda self, log_m=0: None)
    return lambda *arguments, **more: inside("prove", "snap", *arguments, "--progress", "none", **more)


@pytest.fixture
def device(cuzk, monkeypatch, tmp_path):
    """A device that gives the proofs in `device.proofs`, then the published one; and parameters for it."""
    found = SimpleNamespace(proofs=[], started=0, refuses=None)
    found.cuzk = lambda *arguments, **more: cuzk(*arguments, "--params", tmp_path / "params", **more)
    (tmp_path / "params").mkdir()
    found.params = tmp_path / "params" / f"{VK.stem}.params"
    found.params.write_bytes(VK.read_bytes())
    vk = read_verifying_key(VK)
    key = SimpleNamespace(proving=None, verifier=verifier.prepare(vk), load_ms=1.0,
                          file=SimpleNamespace(size=found.params.stat().st_size, verifying_key=vk))
    monkeypatch.setattr(engines.Engine, "key", lambda self, kind, size, located: key)

    def start(key, assignment, *threads):
        found.started += 1
        if found.refuses:
            raise found.refuses
        return SimpleNamespace(timings={"h_ms": 1.0}, device_ms=1.0)

    def finish(running, r, s):
        proof = found.proofs.pop(0) if found.proofs else PROOF
        if isinstance(proof, Exception):
            raise proof
        return SimpleNamespace(to_bytes=lambda: proof)

    monkeypatch.setattr(engines.groth16, "gpu_prove_start", start)
    monkeypatch.setattr(engines.groth16, "gpu_prove_finish", finish)
    return found


# ---- a proof
def test_the_result(device, tmp_path):
    found = device.cuzk(SECTOR)
    assert found.code == 0 and found.json["ok"] is True and not found.lines and not found.warnings
    (result,) = found.json["results"]
    assert result["kind"] == "snap" and result["sector"] == "s-t01000-1"
    assert (result["miner"], result["sector_number"], result["sector_size_bytes"]) == (1000, 1, 2048)
    for name in NAMES:
        of = "comm_d" if name == "comm_d_new" else "comm_r"
        assert result["commitments"][name] == {"hex": FACTS[name], "cid": to_cid(of, bytes.fromhex(FACTS[name]))}
    assert result["public_inputs"] == [json.loads((FIXTURES / "circuits" / "snap-2KiB.json").read_text())[
        "partitions"][0]["public_inputs"]]
    assert result["proof"] == PROOF.hex() and result["verified"] is True and result["attempts"] == 1
    assert result["parameters"]["file"] == str(device.params)
    assert result["parameters"]["size_bytes"] == device.params.stat().st_size
    assert set(result["versions"]) == {"cuzk", "jax", "python"} and result["device"]["platform"] == "cpu"
    assert result["peak_memory_bytes"] > 0 and result["reused"] is False and "insecure_randomness" not in result
    assert set(result["timings"]) >= {"queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "verify_ms",
                                      "total_ms"}
    assert result["job_id"].startswith("snap-1000-1-") and len(result["job_id"]) == len("snap-1000-1-") + 12
    status = read_status(tmp_path / "CUZK_STATUS_DIR")
    assert [p["state"] for p in status["processes"]] == ["ended"] and status["counters"]["total_completed"] == 1
    assert status["pipelines"][0]["job_id"] == result["job_id"] and status["pipelines"][0]["partitions_done"] == 1


@pytest.mark.parametrize("arguments", [
    ["s-t01000-1", "--storage", STORAGE], [f"{SECTOR}/"], [SECTOR, "--vanilla", VANILLA],
    ["--vanilla", VANILLA, *commitments()], [SECTOR, *commitments()], [SECTOR, "--partition", "0"],
    [SECTOR, "--sector-size", "2k"]], ids=str)
def test_input_in_every_form(device, arguments):
    assert device.cuzk(*arguments).json["results"][0]["proof"] == PROOF.hex()


def test_standard_input_and_the_environment(device, monkeypatch, tmp_path):
    assert device.cuzk("--vanilla", "-", *commitments(), stdin=VANILLA.read_bytes()).code == 0
    monkeypatch.setenv("CUZK_STORAGE", f"{tmp_path}:{STORAGE}")
    assert device.cuzk("s-t01000-1", "--vanilla", "-", stdin=VANILLA.read_bytes()).code == 0
    assert device.cuzk("s-t01000-9").code == 10
    monkeypatch.setenv("CUZK_STORAGE", str(tmp_path))
    assert device.cuzk("s-t01000-1").code == 10 and device.cuzk("s-t01000-1", "--storage", STORAGE).code == 0


def test_nothing_is_written_beside_the_sector(device, tmp_path):
    sector = copy(tmp_path / "s")

    def look():
        paths = [sector.parent, *sector.parent.rglob("*")]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = look()
    assert device.cuzk(sector).code == 0 and look() == before


def test_formats_through_verify(device, inside, tmp_path):
    for format in output.FORMATS:
        alone = device.cuzk(SECTOR, "-o", "-", "--format", format)
        assert alone.code == 0
        checked = inside("verify", "snap", SECTOR, "--proof", "-", "--vk", VK, stdin=alone.out)
        assert checked.code == 0 and checked.json["verified"] is True
    whole = device.cuzk(SECTOR)
    assert inside("verify", "snap", SECTOR, "--proof", "-", "--vk", VK, stdin=whole.out).code == 0


def test_fixed_randomness_is_named(device):
    assert device.cuzk(SECTOR, "--insecure-randomness", "a").json["results"][0]["insecure_randomness"] == "a"


def test_an_existing_file_is_kept_where_it_verifies(device, tmp_path):
    out = tmp_path / "p"
    assert device.cuzk(SECTOR, "-o", out).json["results"][0]["reused"] is False and device.started == 1
    for format in output.FORMATS:       # whatever its format
        output.write(out, output.encode({"proof": PROOF.hex()}, format), True)
        before = out.read_bytes()
        again = device.cuzk(SECTOR, "-o", out, "--format", "raw")
        assert again.code == 0 and again.json["results"][0]["reused"] is True and device.started == 1
        assert again.json["results"][0]["proof"] == PROOF.hex() and out.read_bytes() == before
    for bad, options in [(PROOF, ["--insecure-randomness", "a"]), (BAD, []), (PROOF * 2, []), (b"", [])]:
        out.write_bytes(bad)
        refused = device.cuzk(SECTOR, "-o", out, *options)
        assert refused.code == 18 and len(refused.lines) == 1 and "--force" in refused.lines[0]
        assert out.read_bytes() == bad and device.started == 1
    assert device.cuzk(SECTOR, "-o", out, "--force", "--format", "raw").code == 0 and out.read_bytes() == PROOF
    assert device.started == 2 and not list(tmp_path.glob(".p*"))


def test_a_proof_of_another_sector_is_not_kept(device, tmp_path):
    (tmp_path / "p").write_bytes(PROOF)
    assert device.cuzk(OTHER, "-o", tmp_path / "p").code == 18 and device.started == 0


@pytest.mark.parametrize("bad", [BAD, ValueError("a point off its curve")])
def test_a_bad_proof_is_made_once_more(device, tmp_path, bad):
    device.proofs = [bad]
    found = device.cuzk(SECTOR, "-o", tmp_path / "p", "--format", "raw")
    assert found.code == 0 and found.json["results"][0]["attempts"] == 2 and (tmp_path / "p").read_bytes() == PROOF
    device.proofs = [bad, bad]
    failed = device.cuzk(SECTOR, "-o", tmp_path / "q")
    assert failed.code == 14 and not (tmp_path / "q").exists() and "partition 0" in failed.lines[0]
    (result,) = failed.json["results"]
    assert (result["ok"], result["exit"], result["proof"], result["verified"]) == (False, 14, None, False)


@pytest.mark.parametrize("error, code", [
    (fail(Exit.DEVICE, "run"), 12), (fail(Exit.PARAMETERS, "check a[1]", "p"), 11), (MemoryError(), 13),
    (ZeroDivisionError("x"), 1)])
@pytest.mark.parametrize("at_once", [False, True])
def test_what_the_device_raises(device, tmp_path, error, code, at_once):
    device.proofs, device.refuses = [error, error], error if at_once else None
    found = device.cuzk(SECTOR, "-o", tmp_path / "p")
    assert found.code == code == found.json["results"][0]["exit"] and len(found.lines) == 1
    assert not (tmp_path / "p").exists()
    status = read_status(tmp_path / "CUZK_STATUS_DIR")
    assert status["pipelines"][0]["ok"] is False and status["counters"]["total_failed"] == 1
    log = tmp_path / "XDG_STATE_HOME" / "cuzk" / "error.log"
    assert log.exists() == (code == 1)
    if code == 1:
        assert "Traceback" in log.read_text() and "ZeroDivisionError: x" in log.read_text()
        assert str(log) in found.lines[0] and "ZeroDivisionError: x" in found.lines[0]


def test_a_fault_in_one_sector_stops_no_other(device, tmp_path, monkeypatch):
    prepare = snap.Request.prepare

    def faulty(request):
        if request.label == "s-t01000-2":
            raise ZeroDivisionError("x")
        return prepare(request)

    monkeypatch.setattr(snap.Request, "prepare", faulty)
    found = device.cuzk(OTHER, SECTOR, "--out-dir", tmp_path / "d")
    assert found.code == 1 and [r["exit"] for r in found.json["results"]] == [1, 0] and len(found.lines) == 1
    assert os.listdir(tmp_path / "d") == ["s-t01000-1.snap.json"]
    assert (tmp_path / "XDG_STATE_HOME" / "cuzk" / "error.log").exists()


def test_several_sectors(device, tmp_path):
    found = device.cuzk(SECTOR, tmp_path / "none" / "s-t01000-3", OTHER, "--out-dir", tmp_path / "d")
    assert [r["exit"] for r in found.json["results"]] == [0, 10, 14] and found.code == 10
    assert [r["sector"] for r in found.json["results"]] == ["s-t01000-1", "s-t01000-3", "s-t01000-2"]
    assert os.listdir(tmp_path / "d") == ["s-t01000-1.snap.json"]
    assert json.loads((tmp_path / "d" / "s-t01000-1.snap.json").read_text())["proof"] == PROOF.hex()


# ---- bad input fails before long work
def damaged(cuzk, sector, tmp_path, *arguments):
    """The refusal: no device was asked, a line for each problem, nothing written."""
    found = cuzk(sector, "--params", tmp_path, "-o", tmp_path / "p", *arguments)
    assert found.code == 10 == found.json["exit"] and found.json["ok"] is False
    (result,) = found.json["results"]
    assert (result["exit"], result["proof"], result["verified"]) == (10, None, False)
    assert found.lines == ["cuzk: " + problem["message"] for problem in result["errors"]] != []
    assert not (tmp_path / "p").exists() and not list(tmp_path.glob(".p*"))
    return found


REQUIRED = ["sealed/s-t01000-1", "cache/s-t01000-1/p_aux", "update/s-t01000-1",
            "update-cache/s-t01000-1/sc-02-data-tree-d.dat"]
OPTIONAL = ["cache/s-t01000-1/sc-02-data-tree-r-last.dat", "update-cache/s-t01000-1/sc-02-data-tree-r-last.dat",
            "update-cache/s-t01000-1/p_aux"]


@pytest.mark.parametrize("file", REQUIRED)
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "long", "folder", "unreadable"])
def test_required_files(cuzk, tmp_path, monkeypatch, file, damage):
    sector = copy(tmp_path / "s")
    path = tmp_path / "s" / file
    data = path.read_bytes()
    if damage == "unreadable":
        opened = os.open

        def refuse(name, *args, **kwargs):
            if name == path or name == str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
            return opened(name, *args, **kwargs)

        monkeypatch.setattr(os, "open", refuse)
    elif damage in ("missing", "folder"):
        path.unlink()
        if damage == "folder":
            path.mkdir()
    else:
        path.write_bytes({"empty": b"", "short": data[:-1], "long": data + b"\0"}[damage])
    assert str(path) in damaged(cuzk, sector, tmp_path).lines[0]


@pytest.mark.parametrize("file", REQUIRED + OPTIONAL)
def test_a_flipped_bit(cuzk, tmp_path, file):
    sector = copy(tmp_path / "s")
    data = bytearray((tmp_path / "s" / file).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "s" / file).write_bytes(data)
    damaged(cuzk, sector, tmp_path)


def test_files_that_may_be_absent_are_warnings(device, tmp_path):
    sector = copy(tmp_path / "s")
    for file in OPTIONAL:
        (tmp_path / "s" / file).unlink()
    for name in ("cache", "update-cache"):
        (tmp_path / "s" / name / "s-t01000-1" / "t_aux").unlink()
    found = device.cuzk(sector)
    assert found.code == 0 and len(found.warnings) == 2 and all("rebuilt" in line for line in found.warnings)


def test_all_problems_at_once(cuzk, tmp_path):
    sector = copy(tmp_path / "s")
    (tmp_path / "s" / REQUIRED[0]).unlink()
    (tmp_path / "s" / REQUIRED[1]).write_bytes(b"short")
    (tmp_path / "s" / REQUIRED[3]).write_bytes(b"")
    assert len(damaged(cuzk, sector, tmp_path).lines) == 3
    assert damaged_quietly(cuzk, sector, tmp_path) == 3


def damaged_quietly(cuzk, sector, tmp_path):
    found = cuzk(sector, "--params", tmp_path, "--json-errors")
    assert found.code == 10 and not found.lines
    return len(found.json["results"][0]["errors"])


def test_of_another_sector(cuzk, tmp_path):
    of_another_size = copy(tmp_path / "a")
    shutil.copy(FIXTURES / "sectors" / "4KiB" / "update" / "s-t01000-1", tmp_path / "a" / "update")
    damaged(cuzk, of_another_size, tmp_path)
    other_cache = copy(tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "cache" / "s-t01000-1")
    shutil.copytree(tmp_path / "b" / "cache" / "s-t01000-2", tmp_path / "b" / "cache" / "s-t01000-1")
    damaged(cuzk, other_cache, tmp_path)
    damaged(cuzk, tmp_path / "none" / "s-t01000-1", tmp_path)
    damaged(cuzk, SECTOR, tmp_path, "--sector-size", "4KiB")


@pytest.mark.parametrize("name", NAMES)
def test_commitments_that_do_not_match(cuzk, tmp_path, name):
    other = json.loads((STORAGE / "s-t01000-2.json").read_text())[name]
    found = damaged(cuzk, SECTOR, tmp_path, "--" + name.replace("_", "-"), other)
    assert len(found.lines) == 1 and all(word in found.lines[0] for word in (name, other, FACTS[name]))


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", VANILLA.read_bytes()[:1000], b"\0" * 100])
def test_vanilla_proofs_that_cannot_be_read(cuzk, tmp_path, content):
    (tmp_path / "v").write_bytes(content)
    assert str(tmp_path / "v") in damaged(cuzk, SECTOR, tmp_path, "--vanilla", tmp_path / "v").lines[0]


@pytest.mark.parametrize("path", ["none", "folder", "plain/below"])
def test_a_vanilla_file_that_cannot_be_read(cuzk, tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    found = damaged(cuzk, SECTOR, tmp_path, "--vanilla", tmp_path / path)
    assert len(found.lines) == 1 and str(tmp_path / path) in found.lines[0]


def test_vanilla_proofs_of_another_sector(cuzk, tmp_path):
    other = STORAGE / "update-cache" / "s-t01000-2" / "snap-vproof.json"
    assert all(str(other) in line for line in damaged(cuzk, SECTOR, tmp_path, "--vanilla", other).lines)


@pytest.mark.parametrize("arguments, named", [
    ([], "--vanilla"), (["nothing"], "nothing"), ([f"{STORAGE}/s-t1-1"], "s-t1-1"),
    ([SECTOR, "--format", "pem"], "pem"),
    ([SECTOR, "--partition", "1"], "--partition"), ([SECTOR, "--partition", "x"], "--partition"),
    ([SECTOR, "--comm-r-old", "zz"], "--comm-r-old"), ([SECTOR, "--comm-d-new", "ff" * 32], "--comm-d-new"),
    ([SECTOR, "--comm-d-new", to_cid("comm_r", bytes(32))], "CommR"), ([SECTOR, "--sector-size", "3KiB"], "3KiB"),
    ([SECTOR, OTHER, "-o", "p"], "--out-dir"), ([SECTOR, OTHER, "--vanilla", VANILLA], "--vanilla"),
    ([SECTOR, SECTOR, "--out-dir", "d"], "--out-dir"), ([SECTOR, "-o", "p", "--out-dir", "d"], "--out-dir"),
    (["--vanilla", VANILLA], "--sector-size"), (["--vanilla", VANILLA, "--sector-size", "2KiB"], "--comm-r-old"),
    ([SECTOR, "--test-params", "--params", "d"], "--test-params"), ([SECTOR, "--device", "tpu"], "--device"),
    ([SECTOR, "--status-mode", "8"], "--status-mode"), ([SECTOR, "--workers", "0"], None), ([SECTOR, "--none"], None)])
def test_usage(cuzk, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    found = cuzk(*arguments)
    assert found.code == 2, found
    if named:           # what Typer itself refuses has no object
        assert found.json["exit"] == 2 and any(named in line for line in found.lines)
    assert not (tmp_path / "p").exists() and not (tmp_path / "d").exists()


# ---- parameters and resources
def test_missing_parameters_say_what_to_fetch(cuzk, tmp_path):
    found = cuzk(SECTOR, "--params", tmp_path)
    assert found.code == 11 and len(found.lines) == 1 and not list(tmp_path.glob("v28-*"))
    for word in (f"{VK.stem}.params", "655789464 bytes", "311f92a3e75036ced01b1c0025f1fa0c", "lotus fetch-params 2KiB"):
        assert word in found.lines[0]
    elsewhere = cuzk(SECTOR)            # the folder of FIL_PROOFS_PARAMETER_CACHE, which is none
    assert elsewhere.code == 11 and "FIL_PROOFS_PARAMETER_CACHE" in elsewhere.lines[0]


def test_another_circuit_s_partitions_are_missing_too(cuzk, tmp_path):
    found = cuzk(FIXTURES / "sectors" / "16KiB" / "s-t01000-1", "--params", tmp_path)
    assert found.code == 11 and "16KiB" in found.lines[0] and "--test-params" in found.lines[0]


BAD_FILES = {
    "empty": b"", "a page": b"<html>502 Bad Gateway</html>", "head only": VK.read_bytes(),
    "cut off": VK.read_bytes() + (131071).to_bytes(4, "big") + bytes(1000), "zeros": bytes(5000),
    "another circuit": next((FIXTURES / "params").glob("*fallback*.vk")).read_bytes() + bytes(20)}


@pytest.mark.parametrize("name", [*BAD_FILES, "folder", "unreadable"])
def test_bad_parameter_files(cuzk, tmp_path, monkeypatch, name):
    path = tmp_path / f"{VK.stem}.params"
    if name == "folder":
        path.mkdir()
    elif name == "unreadable":
        path.symlink_to(path)           # EACCES does not stop root; ELOOP does
    else:
        path.write_bytes(BAD_FILES[name])
    found = cuzk(SECTOR, "--params", tmp_path)
    assert found.code == 11 == found.json["results"][0]["exit"] and len(found.lines) == 1
    assert str(path) in found.lines[0]


def test_memory_and_parameters_are_both_listed_and_the_lower_code_is_given(cuzk, device, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (1 << 20, "a test"))
    alone = device.cuzk(SECTOR)
    assert alone.code == 13 and len(alone.lines) == 1 and "1048576 bytes (a test)" in alone.lines[0]
    both = cuzk(SECTOR, "--params", tmp_path / "none")
    assert both.code == 11 and sorted(e["exit"] for e in both.json["results"][0]["errors"]) == [11, 13]
    assert len(both.lines) == 2 and device.started == 0


def test_a_marked_folder_is_one_warning(device, tmp_path):
    (tmp_path / "params" / "TEST-PARAMETERS.json").write_text('{"seed": "cuzk"}')
    found = device.cuzk(SECTOR, "--partition", "0")
    assert found.code == 0 and found.json["results"][0]["network_accepts"] is False
    assert len(found.warnings) == 1 and "TEST-PARAMETERS.json" in found.warnings[0]


@pytest.mark.parametrize("where", ["file/below", "folder", "none/below", "/dev/full"])
def test_an_output_that_cannot_be_written_is_seen_before_long_work(device, tmp_path, where):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    found = device.cuzk(SECTOR, "-o", tmp_path / where)
    assert found.code == 18 == found.json["exit"] and len(found.lines) == 1 and where in found.lines[0]
    assert device.started == 0


# ---- as a process
JQ = "jq -e .ok" if shutil.which("jq") else shlex.join(
    [sys.executable, "-c", "import json, sys; print(json.dumps(json.load(sys.stdin)['ok']))"])


@pytest.fixture
def shell(tmp_path):
    """A line for bash with pipefail; `cuzk` is the real one, with the caches of whoever runs the tests."""
    def run(line):
        function = f'cuzk() {{ {shlex.join(REAL)} "$@"; }}\n'
        done = subprocess.run(["bash", "-o", "pipefail", "-c", function + line], capture_output=True, cwd=tmp_path,
                              env=own_caches(tmp_path), timeout=900)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done
    return run


def own_caches(folder):
    kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    return {**environment(folder), **kept}


def test_vanilla_proofs_through_a_pipe(shell, tmp_path):
    (tmp_path / "none").mkdir()
    done = shell(f"cat {VANILLA} | cuzk prove snap {SECTOR} --vanilla - --params none")
    assert done.returncode == 11 and json.loads(done.stdout)["exit"] == 11 and b"lotus fetch-params" in done.stderr


def processes_of(folder):
    """Processes with our folder in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file, open(f"/proc/{pid}/stat") as stat:
                if os.fsencode(folder) in file.read() and stat.read().rsplit(")")[1].split()[0] != "Z":
                    found.append(int(pid))
        except OSError:
            continue
    return found


def stopped(tmp_path, number, reached, seconds, *options):
    """Start a real proof, send a signal when its status is as `reached` asks, or after so many seconds; its output."""
    process = subprocess.Popen([*REAL, "prove", "snap", SECTOR, "--test-params", "-o", "p", *options], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own_caches(tmp_path))
    began = time.monotonic()
    while time.monotonic() - began < seconds and process.poll() is None:
        if reached(read_status(tmp_path / "status")):
            break
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5 and process.returncode == 128 + number, (process.returncode, err)
    assert b"Traceback" not in err and b"stopped by" in err, err.decode()
    (result,) = json.loads(out)["results"]
    assert result["exit"] == json.loads(out)["exit"] == 128 + number and result["proof"] is None
    status = read_status(tmp_path / "status")
    assert [p["state"] for p in status["processes"]] == ["ended"] and status["gpu_workers"] == []
    assert all(job["error"] == f"stopped by {signal.Signals(number).name}" for job in status["pipelines"])
    assert all(job["finished"] and job["ok"] is False for job in status["pipelines"])
    assert os.listdir(tmp_path / "status") == [f"status-{process.pid}.json"] and not (tmp_path / "p").exists()
    for _ in range(50):                 # an orphan is told to end, too
        if not processes_of(tmp_path):
            break
        time.sleep(0.1)
    assert processes_of(tmp_path) == []


def partition_is(*states):
    return lambda status: any(p["state"] in states for job in status["pipelines"] for p in job["partitions"])


@pytest.mark.parametrize("number, reached", [
    (signal.SIGTERM, lambda status: status["processes"]),       # input is read, programs are compiled
    pytest.param(signal.SIGINT, partition_is("synthesizing", "synth_done", "gpu"), marks=pytest.mark.slow)],
    ids=["at the start", "at work"])
def test_a_signal(tmp_path, number, reached):
    stopped(tmp_path, number, reached, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 2, 5])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_proves(tmp_path, number, seconds):
    def proving(status):
        return any(w["state"] == "proving" and w["busy_secs"] >= seconds for w in status["gpu_workers"])

    stopped(tmp_path, number, proving, 400)


@pytest.mark.slow
def test_end_to_end(shell, tmp_path):
    """Free randomness into verify, fixed randomness to the reference's bytes, a file that is kept."""
    prove = f"cuzk prove snap {SECTOR} --test-params"
    done = shell(f"{prove} --format hex -o - | cuzk verify snap {SECTOR} --proof - --test-params")
    assert done.returncode == 0 and json.loads(done.stdout)["verified"] is True
    done = shell(f"{prove} --insecure-randomness a -o p --format hex | {JQ}")
    assert done.returncode == 0 and done.stdout == b"true\n" and (tmp_path / "p").read_text() == PROOF.hex() + "\n"
    kept = shell(f"{prove} -o p")
    (result,) = json.loads(kept.stdout)["results"]
    assert kept.returncode == 0 and result["reused"] is result["verified"] is True
    assert result["network_accepts"] is False
    assert (tmp_path / "p").read_text() == PROOF.hex() + "\n"
    assert shell(f"cat {VANILLA} | {prove} --vanilla - --insecure-randomness a -o - --format raw").stdout == PROOF


@pytest.mark.slow
def test_two_partitions(shell, tmp_path):
    sector = FIXTURES / "sectors" / "16KiB" / "s-t01000-1"
    done = shell(f"cuzk prove snap {sector} --test-params --format raw -o p")
    (result,) = json.loads(done.stdout)["results"]
    assert done.returncode == 0 and result["partitions"] == [0, 1] and len((tmp_path / "p").read_bytes()) == 384
    verify = f"cuzk verify snap {sector} --test-params --proof"
    assert shell(f"{verify} p").returncode == 0
    done = shell(f"(tail -c 192 p; head -c 192 p) | {verify} -")
    assert done.returncode == 14 and json.loads(done.stdout)["partitions_verified"] == [False, False]
    assert shell(f"tail -c 192 p | {verify} - --partition 1").returncode == 0


def test_a_request_object_of_another_sector_is_refused_beside_a_sector(device, tmp_path):
    """Its proofs are this sector's, so that only the commitments beside them tell."""
    body = {"ProofType": 0, "Proofs": json.loads(VANILLA.read_text())}
    values = {"old_r": FACTS["comm_r_old"], "new_r": FACTS["comm_r_new"], "new_d": FACTS["comm_d_new"]}
    path = tmp_path / "request.json"
    for wrong, name in ((None, ""), ("old_r", "comm_r_old"), ("new_r", "comm_r_new"), ("new_d", "comm_d_new")):
        given = {**values, **({wrong: FACTS["comm_r_last_new"]} if wrong else {})}
        path.write_text(json.dumps({**body, **{k: list(bytes.fromhex(v)) for k, v in given.items()}}))
        ended = device.cuzk(SECTOR, "--vanilla", path)
        assert ended.code == (10 if wrong else 0), ended.lines
        assert not wrong or len(ended.lines) == 1 and str(path) in ended.lines[0] and name in ended.lines[0]


def test_explain_proves_nothing(device, tmp_path):
    found = device.cuzk(SECTOR, tmp_path / "none" / "s-t01000-3", "--explain", "--memory-budget", "1GiB")
    first, second = found.json["results"]
    assert found.code == 10 and [r["exit"] for r in (first, second)] == [0, 10] and not device.started
    plan = first["plan"]
    assert plan["circuit"] == "snap 2KiB" and plan["memory"]["have_bytes"] == 1 << 30 and not plan["memory"]["fits"]
    assert first["proof"] is None and first["verified"] is False and first["job_id"].startswith("snap-1000-1-")


def test_a_budget_that_does_not_do(device):
    found = device.cuzk(SECTOR, "--memory-budget", "1GiB")
    assert found.code == 13 and "--memory-budget" in found.lines[0] and not device.started
