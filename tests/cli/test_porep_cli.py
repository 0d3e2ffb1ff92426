"""`cuzk prove|verify|circuit digest porep`: options, results and files; the slow ones prove."""
import base64
import json
import subprocess
from pathlib import Path

import pytest

from cuzk_cli.params.digests import digest_file
from cuzk_cli.protocol.table import NON_INTERACTIVE, SIZES, Registered, parameter_stem

from ..sectors import sealing
from .common import REAL
from .test_prove_cli import own_caches

FIXTURES = Path(__file__).parents[2] / "fixtures"
STORAGE = FIXTURES / "sectors" / "2KiB"
C1 = STORAGE / "s-t01000-1.c1.json"
OTHER = STORAGE / "s-t01000-2.c1.json"
FACTS = json.loads((STORAGE / "s-t01000-1.json").read_text())
PROOF = json.loads((FIXTURES / "proofs" / "proof-porep.json").read_text())["proofs"][0]
VK = FIXTURES / "params" / f"{parameter_stem('porep', SIZES[2048])}.vk"
GIVEN = {"--comm-r": FACTS["comm_r_old"], "--comm-d": FACTS["comm_d_old"], "--prover-id": FACTS["prover_id"],
         "--sector-number": "1", "--ticket": FACTS["ticket"], "--seed": FACTS["interactive_seed"],
         "--sector-size": "2KiB"}


def flat(options):
    return [text for pair in options.items() for text in pair]


@pytest.fixture
def key(tmp_path):
    """Options of a published proof and its key."""
    (tmp_path / "proof.hex").write_text(PROOF["proof"])
    return ["--proof", tmp_path / "proof.hex", "--vk", VK]


# ---- verify
def test_verify(inside, key, tmp_path):
    found = inside("verify", "porep", C1, *key)
    assert found.code == 0 and found.json["verified"] and found.json["partitions_verified"] == [True]
    assert "public_inputs" not in found.json and found.json["sector_number"] == 1
    for name in ("porep", "porep-c2", "commit2", "c2"):
        found = inside("verify", name, *flat(GIVEN), *key, "--show-inputs")
        assert found.code == 0 and found.json["public_inputs"] == [PROOF["public_inputs"]]
        assert found.json["sector"] == "s-t01000-1" and found.json["registered_proof"] == 5
    (tmp_path / "inputs.json").write_text(json.dumps({"public_inputs": [PROOF["public_inputs"]]}))
    again = inside("verify", "porep", "--sector-size", "2KiB", "--public-inputs", tmp_path / "inputs.json", *key)
    assert again.code == 0 and again.json["verified"]


def test_verify_from_standard_input(inside, key):
    assert inside("verify", "porep", "-", *key, stdin=C1.read_bytes()).code == 0
    proof = inside("verify", "porep", C1, "--proof", "-", "--vk", VK, stdin=bytes.fromhex(PROOF["proof"]))
    assert proof.code == 0


@pytest.mark.parametrize("changes", [
    {"--comm-r": FACTS["comm_r_new"]}, {"--comm-d": FACTS["comm_d_new"]}, {"--sector-number": "2"},
    {"--ticket": "00" * 32}, {"--seed": "00" * 32}, {"--porep-id": "00" * 32}, {"--registered-proof": "0"},
    {"--registered-proof": "10"},
    {"--prover-id": "e907" + "00" * 30}])
def test_verify_says_no(inside, key, changes):
    found = inside("verify", "porep", *flat({**GIVEN, **changes}), *key)
    assert found.code == 14 and found.json["verified"] is False


def test_verify_says_no_to_another_sectors_file(inside, key):
    assert inside("verify", "porep", OTHER, *key).code == 14
    assert inside("verify", "porep", OTHER, *flat(GIVEN), *key).code == 10


@pytest.mark.parametrize("arguments, code, said", [
    ([], 2, "--comm-r, --comm-d, --ticket, --seed"), (flat({**GIVEN, "--seed": "00" * 31}), 2, "31 bytes"),
    (flat({**GIVEN, "--registered-proof": "15"}), 14, "2496 bytes"), (["/nowhere.json"], 10, "/nowhere.json"),
    ([C1, "--miner", "1001"], 10, "replica id"), ([C1, "--registered-proof", "8"], 10, "sector size")])
def test_verify_cannot_say(inside, key, arguments, code, said):
    found = inside("verify", "porep", *arguments, *key)
    assert found.code == code and said in "\n".join(found.lines) and found.json["ok"] is False


# ---- digest
def test_digest(inside):
    want = json.loads((FIXTURES / "circuits" / "porep-2KiB.json").read_text())
    found = inside("circuit", "digest", "porep", "--sector-size", "2KiB", "--c1", C1)
    made = json.loads(found.out)
    assert found.code == 0 and made["parameter_identifier"] == want["parameter_identifier"]
    assert {name: made["partitions"][0][name] for name in want["partitions"][0]} == want["partitions"][0]
    blank = json.loads(inside("circuit", "digest", "porep", "--sector-size", "2KiB").out)["partitions"][0]
    assert blank["rows_sha256"] == want["partitions"][0]["rows_sha256"] and "witness_sha256" not in blank
    assert inside("circuit", "digest", "porep").code == 2


# ---- prove
@pytest.mark.parametrize("arguments, code, said", [
    ([], 2, "phase 1 output"), ([C1, "--partition", "x"], 2, "--partition"), ([C1, "--partition", "1"], 2, "0 to 0"),
    ([C1, "--format", "x"], 2, "--format"), ([C1, "--miner", "t01001"], 10, "replica id"),
    ([C1, "--seed", "zz"], 2, "--seed"), ([C1, "--sector-number", "2"], 10, "another sector"),
    (["/nowhere.json"], 10, "/nowhere.json"),
    ([STORAGE], 10, str(STORAGE)), ([VK], 10, "supraseal's binary")])
def test_prove_refuses(inside, arguments, code, said):
    found = inside("prove", "porep", *arguments, "--test-params", "--explain", "--progress", "none")
    assert found.code == code and said in "\n".join(found.lines) and found.json["exit"] == code


def test_explain(inside):
    for name, source, stdin in (("porep", C1, b""), ("c2", "-", C1.read_bytes())):
        found = inside("prove", name, source, "--miner", "t01000", "--test-params", "--explain", "--progress", "none",
                       stdin=stdin)
        (result,) = found.json["results"]
        assert result["ok"] and result["job_id"].startswith("porep-1000-1-")
        assert result["plan"]["constraints"] == 2_687_921
        assert result["commitments"]["comm_d"]["cid"].startswith("baga6ea4seaq")


def test_explain_what_is_not_interactive(inside):
    sealed = sealing.seal(Registered("porep", NON_INTERACTIVE, SIZES[2048]))
    data = sealing.as_json(sealing.as_object(sealed))
    found = inside("prove", "porep", "-", "--miner", "1000", "--sector-number", "7", "--test-params", "--explain",
                   "--progress", "none", stdin=data)
    (result,) = found.json["results"]
    assert result["ok"] and result["aggregated"] is False and "13 partition proofs" in result["warnings"][0]


def prove(folder, *arguments):
    done = cuzk(folder, "prove", "porep", *arguments, "--test-params", "--device", "cpu", "--progress", "none")
    return done, json.loads(done.stdout)


def cuzk(folder, *arguments):
    """As a process, with the user's own caches and test parameters."""
    done = subprocess.run([*REAL, *map(str, arguments)], capture_output=True, cwd=folder, env=own_caches(folder),
                          timeout=1800)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.mark.slow
def test_the_references_bytes(tmp_path):
    """Parameters of the reference's digest, and its proof; what is written verifies, and is kept."""
    done, found = prove(tmp_path, C1, "--insecure-randomness", "a", "-o", "p.json")
    (result,) = found["results"]
    assert done.returncode == 0 and result["errors"] == [] and result["verified"]
    assert result["proof"] == PROOF["proof"]
    assert result["partitions"] == [{"partition": 0, "proof": PROOF["proof"]}]
    known = {entry["circuit"]: entry for entry in json.loads((FIXTURES / "params" / "digests.json").read_text())}
    # read again: what is remembered of a file that was linked or renamed since is forgotten
    assert digest_file(result["parameters"]["file"]) == known["porep 2KiB"]["blake2b_32"]
    assert result["parameters"]["size_bytes"] == known["porep 2KiB"]["bytes"]
    assert cuzk(tmp_path, "verify", "porep", *flat(GIVEN), "--proof", "p.json", "--vk", VK).returncode == 0


@pytest.mark.slow
def test_a_partition_that_is_not_interactive(tmp_path):
    """In the wrapper, without its sector number, which the option gives."""
    sealed = sealing.seal(Registered("porep", NON_INTERACTIVE, SIZES[2048]))
    data = sealing.as_json(sealing.as_object(sealed))
    (tmp_path / "ni.json").write_text(json.dumps({"Phase1Out": base64.b64encode(data).decode()}))
    told = ["--miner", "t01000", "--sector-number", "7", "--partition", "12"]
    done, found = prove(tmp_path, "ni.json", *told, "-o", "p.json")
    (result,) = found["results"]
    assert done.returncode == 0 and [p["partition"] for p in result["partitions"]] == [12]
    assert len(result["proof"]) == 384 and result["aggregated"] is False
    assert b"not made here" in done.stderr and "not made here" in result["warnings"][0]
    done = cuzk(tmp_path, "verify", "porep", "ni.json", *told, "--proof", "p.json", "--vk", VK)
    assert done.returncode == 0 and json.loads(done.stdout)["aggregated"] is False
