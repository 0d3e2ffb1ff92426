"""The commands as a shell sees them: exit codes, one line a problem, one JSON object, whole files or none."""
import base64
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTOR = ROOT / "fixtures" / "sectors" / "2KiB" / "s-t01000-1"
VPROOF = ROOT / "fixtures/sectors/2KiB/update-cache/s-t01000-1/snap-vproof.json"
FACTS = json.loads((ROOT / "fixtures/sectors/2KiB/s-t01000-1.json").read_text())
VK = next((ROOT / "fixtures" / "params").glob("v28-empty-sector-update-*.vk"))
PROOF = json.loads((ROOT / "fixtures" / "proofs" / "proof-snap.json").read_text())["proofs"][0]["proof"]
CUZK = f"{sys.executable} -m cuzk_cli"
pytestmark = pytest.mark.slow       # whole processes; test_prove_cli and test_verify_cli ask the same inside one


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "PYTHONPATH": str(ROOT), "CUZK_STATUS_DIR": str(tmp_path / "status"),
            "XDG_STATE_HOME": str(tmp_path / "state"), "FIL_PROOFS_PARAMETER_CACHE": str(tmp_path / "none")}


@pytest.fixture
def cuzk(environment):
    def run(*arguments, stdin=None):
        ended = subprocess.run([sys.executable, "-m", "cuzk_cli", *map(str, arguments)], input=stdin, capture_output=True,
                               env=environment, timeout=300)
        assert b"Traceback" not in ended.stderr, ended.stderr.decode()
        return ended
    return run


@pytest.fixture
def shell(environment):
    def run(script):
        ended = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, env=environment, timeout=900)
        assert b"Traceback" not in ended.stderr, ended.stderr.decode()
        return ended
    return run


def lines(ended):
    return [line for line in ended.stderr.decode().splitlines() if line.startswith("cuzk: ") and "warning" not in line]


def test_version_and_help_tell_which_cuzk_this_is(cuzk):
    assert b"not the network's Rust daemon" in cuzk("--version").stdout
    text = " ".join(cuzk("--help").stdout.decode().split())
    assert "10 input missing, damaged or mismatched" in text and "18 output not written" in text


@pytest.mark.parametrize("arguments", [
    ["prove", "snap"], ["prove", "snap", "x"], ["prove", "snap", SECTOR, "--format", "xml"],
    ["prove", "snap", SECTOR, "--partition", "7"], ["prove", "snap", SECTOR, "--comm-r-old", "zz"],
    ["prove", "snap", SECTOR, SECTOR, "-o", "f"], ["prove", "snap", "--vanilla", VPROOF],
    ["prove", "snap", SECTOR, "--test-params", "--params", "p"], ["prove", "snap", "--nonsense"],
    ["circuit", "digest", "snap", "--sector-size", "3KiB"], ["verify", "snap", "--proof", VPROOF, "--vk", VK, "--sector-size", "2KiB"],
])
def test_usage(cuzk, arguments):
    ended = cuzk(*arguments)
    assert ended.returncode in ((2, 10) if "verify" in arguments else (2,)), ended.stderr


def test_damaged_sector(cuzk, tmp_path):
    shutil.copytree(ROOT / "fixtures" / "sectors" / "2KiB", tmp_path / "s")
    (tmp_path / "s/sealed/s-t01000-1").unlink()
    (tmp_path / "s/cache/s-t01000-1/p_aux").write_bytes(b"short")
    ended = cuzk("prove", "snap", tmp_path / "s/s-t01000-1", "--json-errors")
    answer = json.loads(ended.stdout)
    assert ended.returncode == 10 == answer["exit"] and not answer["ok"] and not lines(ended)
    assert len(answer["results"][0]["errors"]) == 2 and answer["results"][0]["proof"] is None
    ended = cuzk("prove", "snap", tmp_path / "s/s-t01000-1")
    assert len(lines(ended)) == 2 and "sealed/s-t01000-1" in lines(ended)[0] and "p_aux" in ended.stderr.decode()


def test_missing_parameters_say_what_to_fetch(cuzk, tmp_path):
    ended = cuzk("prove", "snap", SECTOR, "--params", tmp_path)
    (line,) = lines(ended)
    assert ended.returncode == 11 and "655789464 bytes" in line and "311f92a3e75036ced01b1c0025f1fa0c" in line
    assert "lotus fetch-params 2KiB" in line and not list(tmp_path.glob("*.params"))


def test_several_problems_give_the_lowest_code(cuzk, tmp_path):
    shutil.copytree(ROOT / "fixtures" / "sectors" / "2KiB", tmp_path / "s")
    (tmp_path / "s/sealed/s-t01000-1").unlink()
    answer = json.loads(cuzk("prove", "snap", SECTOR, tmp_path / "s/s-t01000-1", "--params", tmp_path).stdout)
    assert [r["exit"] for r in answer["results"]] == [11, 10] and answer["exit"] == 11


@pytest.mark.parametrize("damage", ["truncated", "text", "folder", "another circuit"])
def test_bad_parameter_files(cuzk, tmp_path, damage):
    path = tmp_path / f"{VK.stem}.params"
    if damage == "folder":
        path.mkdir()
    elif damage == "text":
        path.write_text("<html>502 Bad Gateway</html>")
    elif damage == "truncated":
        path.write_bytes(VK.read_bytes() + bytes(100))
    else:
        path.write_bytes(next((ROOT / "fixtures" / "params").glob("*fallback*.vk")).read_bytes() + bytes(20))
    ended = cuzk("prove", "snap", SECTOR, "--params", tmp_path)
    assert ended.returncode == 11 and str(path) in lines(ended)[0]


def test_vanilla_from_a_pipe(shell, tmp_path):
    ended = shell(f"cat {VPROOF} | {CUZK} prove snap {SECTOR} --vanilla - --params {tmp_path}")
    assert ended.returncode == 11, ended.stderr
    ended = shell(f"head -c 1000 {VPROOF} | {CUZK} prove snap {SECTOR} --vanilla - --params {tmp_path}")
    assert ended.returncode == 10 and b"is the file complete" in ended.stderr


def test_vanilla_of_another_sector(cuzk, tmp_path):
    other = ROOT / "fixtures/sectors/2KiB/update-cache/s-t01000-2/snap-vproof.json"
    ended = cuzk("prove", "snap", SECTOR, "--vanilla", other, "--params", tmp_path)
    assert ended.returncode == 10 and all(str(other) in line for line in lines(ended))


@pytest.mark.parametrize("form", ["raw", "hex", "base64", "json"])
def test_verify_takes_every_form(cuzk, tmp_path, form):
    raw = bytes.fromhex(PROOF)
    data = {"raw": raw, "hex": PROOF.encode() + b"\n", "base64": base64.b64encode(raw), "json": json.dumps({"proof": PROOF}).encode()}[form]
    (tmp_path / "p").write_bytes(data)
    assert json.loads(cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", VK).stdout)["verified"] is True
    facts = [a for name in ("comm-r-old", "comm-r-new", "comm-d-new") for a in (f"--{name}", FACTS[name.replace("-", "_")])]
    assert cuzk("verify", "snap", "--sector-size", "2KiB", *facts, "--proof", "-", "--vk", VK, stdin=data).returncode == 0


def test_verify_refuses(cuzk, tmp_path):
    for position in (0, 47, 48, 100, 144, 191):
        bad = bytearray.fromhex(PROOF)
        bad[position] ^= 1
        (tmp_path / "p").write_bytes(bytes(bad).hex().encode())
        ended = cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", VK)
        assert ended.returncode == 14 and json.loads(ended.stdout)["verified"] is False
    (tmp_path / "p").write_text(PROOF[:-2])
    assert cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", VK).returncode == 14
    other = ROOT / "fixtures/sectors/2KiB/s-t01000-2"
    (tmp_path / "p").write_text(PROOF)
    assert cuzk("verify", "snap", other, "--proof", tmp_path / "p", "--vk", VK).returncode == 14
    (tmp_path / "p").write_text("no proof!")
    assert cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", VK).returncode == 10
    assert cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "absent", "--vk", VK).returncode == 10
    (tmp_path / "p").write_text(PROOF)
    assert cuzk("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", tmp_path / "absent").returncode == 11


def test_digest_is_the_reference_s(cuzk):
    answer = json.loads(cuzk("circuit", "digest", "snap", "--sector-size", "2k", "--vanilla", VPROOF, "--sector", SECTOR).stdout)
    expected = json.loads((ROOT / "fixtures/circuits/snap-2KiB.json").read_text())
    assert answer["circuit"] == expected["circuit"] and answer["parameter_identifier"] == expected["parameter_identifier"]
    for key, value in answer["partitions"][0].items():
        assert expected["partitions"][0][key] == value, key


def test_digest_never_refuses_unsatisfied_input(cuzk):
    facts = ["--comm-r-old", FACTS["comm_r_new"], "--comm-r-new", FACTS["comm_r_new"], "--comm-d-new", FACTS["comm_d_new"]]
    answer = json.loads(cuzk("circuit", "digest", "snap", "--sector-size", "2KiB", "--vanilla", VPROOF, *facts).stdout)
    assert answer["partitions"][0]["unsatisfied"] > 0


def test_closed_and_full_standard_output(shell):
    digest = f"{CUZK} circuit digest snap --sector-size 2KiB"
    assert shell(f"{digest} >&-").returncode == 141
    assert shell(f"{digest} > /dev/full").returncode == 18
    assert shell(f"{CUZK} status --json > /dev/full").returncode == 18
    assert shell(f"set +o pipefail; ({digest}; echo $? >&2) | true").stderr.decode().strip().splitlines()[-1] in ("141", "0")


def test_status_without_a_prover(cuzk):
    ended = cuzk("status", "--json")
    answer = json.loads(ended.stdout)
    assert ended.returncode == 0 and answer["state"] == "absent" and answer["ok"] is False and answer["gpu_workers"] == []
    assert cuzk("status", "--check").returncode == 3 and cuzk("status", "--check", "--absent", "ok").returncode == 0


def test_status_imports_neither_jax_nor_numpy(environment):
    script = "import sys; sys.argv = ['cuzk', 'status', '--json']\nfrom cuzk_cli.cli import main\n" \
             "assert main._run() == 0\nassert not {'jax', 'numpy', 'numba'} & set(sys.modules)"    # run() ends the process
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, stdout=subprocess.DEVNULL)


def test_parameters_are_not_made_where_they_must_not_be(cuzk, tmp_path, environment):
    (tmp_path / "v28-x.params").write_bytes(b"x")
    for folder in (tmp_path, environment["FIL_PROOFS_PARAMETER_CACHE"], "/var/tmp/filecoin-proof-parameters"):
        ended = cuzk("params", "generate", "snap", "--sector-size", "2KiB", "--insecure-seed", "s", "--out", folder)
        assert ended.returncode == 11 and len(lines(ended)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(environment, tmp_path, number):
    running = subprocess.Popen([sys.executable, "-m", "cuzk_cli", "prove", "snap", "--vanilla", "/dev/stdin", "--sector-size", "2KiB",
                                "--comm-r-old", FACTS["comm_r_old"], "--comm-r-new", FACTS["comm_r_new"],
                                "--comm-d-new", FACTS["comm_d_new"]], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(300):                        # it waits for its standard input, long after the first status
        if list((tmp_path / "status").glob("status-*.json")):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    running.send_signal(number)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 128 + number and b"Traceback" not in err
    (file,) = (tmp_path / "status").glob("status-*.json")
    assert json.loads(file.read_text())["state"] == "ended"


def test_output_rules(tmp_path, monkeypatch):
    from cuzk_cli.cli import output
    from cuzk_cli.errors import CuzkError, Exit

    path, good = tmp_path / "p.json", lambda proof: proof == b"\x80" * 192
    result = {"proof": (b"\x80" * 192).hex(), "ok": True}
    assert output.existing(path, False, True, good) is None and not path.exists()
    for form in output.FORMATS:
        output.write(path, output.encode(result, form), True)
        assert output.decode(path.read_bytes(), path) == b"\x80" * 192
        assert output.existing(path, False, True, good) == b"\x80" * 192
    for keep, verifies in ((False, good), (True, lambda proof: False)):
        with pytest.raises(CuzkError) as raised:
            output.existing(path, False, keep, verifies)
        assert raised.value.exit == Exit.OUTPUT
    assert output.existing(path, True, True, good) is None
    for bad in (path / "below", tmp_path / "absent" / "p", tmp_path):
        with pytest.raises(CuzkError) as raised:
            output.existing(bad, True, True, good)
        assert raised.value.exit == Exit.OUTPUT

    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CuzkError) as raised:
        output.write(path, b"new", True)
    assert raised.value.exit == Exit.OUTPUT and path.read_bytes() == before and os.listdir(tmp_path) == ["p.json"]


def test_prove_end_to_end(shell, tmp_path):
    """Free randomness through a pipe to verify; fixed randomness to the reference's bytes; kept files."""
    ended = shell(f"{CUZK} prove snap {SECTOR} --test-params --format hex -o - | {CUZK} verify snap {SECTOR} --test-params --proof -")
    assert ended.returncode == 0 and json.loads(ended.stdout)["verified"] is True
    out = tmp_path / "p.json"
    answer = json.loads(shell(f"{CUZK} prove snap {SECTOR} --test-params --insecure-randomness a -o {out}").stdout)
    result = answer["results"][0]
    assert result["proof"] == PROOF and result["network_accepts"] is False and result["insecure_randomness"] == "a"
    assert json.loads(out.read_text())["proof"] == PROOF
    again = json.loads(shell(f"{CUZK} prove snap {SECTOR} --test-params -o {out}").stdout)["results"][0]
    assert again["reused"] is True and again["proof"] == PROOF
    assert shell(f"{CUZK} prove snap {SECTOR} --test-params --insecure-randomness a -o {out}").returncode == 18
    status = json.loads(shell(f"{CUZK} status --json").stdout)
    assert status["state"] == "absent" and {p["state"] for p in status["processes"]} == {"ended"} and all(w["state"] == "idle" for w in status["gpu_workers"])


def test_two_partitions_and_two_sectors(shell, tmp_path):
    sector = ROOT / "fixtures" / "sectors" / "16KiB" / "s-t01000-1"
    ended = shell(f"{CUZK} prove snap {sector} {SECTOR} --test-params --out-dir {tmp_path} --format raw")
    assert ended.returncode == 2                    # two sectors of one name would have one file
    ended = shell(f"{CUZK} prove snap {sector} --test-params --out-dir {tmp_path} --format raw")
    answer = json.loads(ended.stdout)
    assert answer["ok"] and answer["results"][0]["partitions"] == [0, 1]
    file = tmp_path / "s-t01000-1.snap.bin"
    assert len(file.read_bytes()) == 384
    assert shell(f"{CUZK} verify snap {sector} --test-params --proof {file}").returncode == 0
