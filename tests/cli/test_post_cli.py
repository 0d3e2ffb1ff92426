"""`cuzk prove|vanilla|verify|circuit digest winning|window`: options, results and files; the slow ones prove."""
import json
import subprocess
from pathlib import Path

import pytest

from cuzk_cli.params.digests import digest_file
from cuzk_cli.protocol.table import SIZES, parameter_stem

from .common import REAL
from .test_prove_cli import own_caches

FIXTURES = Path(__file__).parents[2] / "fixtures"
STORAGE = FIXTURES / "sectors" / "2KiB"
SECTORS = [STORAGE / f"s-t01000-{n}" for n in (1, 2)]
POSTS = {kind: json.loads((FIXTURES / "posts" / f"{kind}-vanilla.json").read_text()) for kind in ("window", "winning")}
PROOFS = {kind: json.loads((FIXTURES / "proofs" / f"proof-{kind}.json").read_text())["proofs"][0]
          for kind in ("window", "winning")}
VK = {kind: FIXTURES / "params" / f"{parameter_stem(kind, SIZES[2048])}.vk" for kind in ("window", "winning")}
RANDOMNESS = POSTS["window"]["randomness"]
GIVEN = ["--randomness", RANDOMNESS, "--replica", "sealed"]
NUMBERED = [f"{entry['sector']}:{entry['comm_r']}" for entry in POSTS["window"]["sectors"]]


def sectors(kind):
    return SECTORS if kind == "window" else SECTORS[:1]


def numbered(kind):
    return [part for text in NUMBERED[:len(sectors(kind))] for part in ("--sector", text)]


@pytest.fixture
def proof(tmp_path):
    """Files of the published proofs."""
    for kind, entry in PROOFS.items():
        (tmp_path / f"{kind}.hex").write_text(entry["proof"])
    return lambda kind: tmp_path / f"{kind}.hex"


# ---- verify
@pytest.mark.parametrize("kind", ["window", "winning"])
def test_verify(inside, proof, kind, tmp_path):
    key = ["--proof", proof(kind), "--vk", VK[kind]]
    found = inside("verify", kind, *sectors(kind), *GIVEN, *key)
    assert found.code == 0 and found.json["verified"] and found.json["partitions_verified"] == [True]
    facts = ["--sector-size", "2KiB", "--randomness", RANDOMNESS, *numbered(kind)]
    found = inside("verify", kind, *facts, *key, "--show-inputs")
    assert found.code == 0 and found.json["public_inputs"] == [PROOFS[kind]["public_inputs"]]
    for form in ({"public_inputs": [PROOFS[kind]["public_inputs"]]}, PROOFS[kind]["public_inputs"]):
        (tmp_path / "inputs.json").write_text(json.dumps(form))
        again = inside("verify", kind, "--sector-size", "2KiB", "--public-inputs", tmp_path / "inputs.json", *key)
        assert again.code == 0 and again.json["verified"]
    piped = inside("verify", kind, "--sector-size", "2KiB", "--public-inputs", "-", *key,
                   stdin=json.dumps(PROOFS[kind]["public_inputs"]).encode())
    assert piped.code == 0


@pytest.mark.parametrize("change", ["randomness", "replica", "one sector", "version", "proof", "input"])
def test_verify_says_no(inside, proof, change, tmp_path):
    key = ["--proof", proof("window"), "--vk", VK["window"]]
    given, which = list(GIVEN), SECTORS
    if change == "randomness":
        given[1] = "11" * 32
    elif change == "replica":
        given[3] = "update"
    elif change == "one sector":
        which = SECTORS[:1]
    elif change == "version":
        given += ["--registered-proof", "5"]
    elif change == "proof":
        key[1].write_text(PROOFS["window"]["proof"][:-2] + "00")
    elif change == "input":
        (tmp_path / "inputs.json").write_text(json.dumps([*PROOFS["window"]["public_inputs"][:-1], 1]))
        given, which = ["--sector-size", "2KiB", "--public-inputs", tmp_path / "inputs.json"], []
    found = inside("verify", "window", *which, *given, *key)
    assert found.code == 14 and found.json["verified"] is False


@pytest.mark.parametrize("arguments, code, said", [
    ([], 2, "--randomness"), (["--randomness", RANDOMNESS], 2, "--sector"),
    (["--randomness", RANDOMNESS, "--sector", "1"], 2, "NUMBER:COMM_R"),
    (["--randomness", RANDOMNESS, "--sector", NUMBERED[0]], 2, "--sector-size"),
    (["--randomness", RANDOMNESS, "--sector", NUMBERED[0], "--sector", NUMBERED[0], "--sector-size", "2KiB"], 10,
     "twice"),
    (["--randomness", RANDOMNESS[:62], "--sector", NUMBERED[0], "--sector-size", "2KiB"], 2, "31 bytes"),
    (["--public-inputs", "-"], 2, "--sector-size"),
    (["--public-inputs", "/nowhere", "--sector-size", "2KiB"], 10, "/nowhere")])
def test_verify_cannot_say(inside, proof, arguments, code, said):
    found = inside("verify", "window", *arguments, "--proof", proof("window"), "--vk", VK["window"])
    assert found.code == code and said in "\n".join(found.lines) and found.json["ok"] is False


def test_public_inputs_of_another_circuit(inside, proof):
    found = inside("verify", "window", "--sector-size", "2KiB", "--public-inputs", "-", "--proof", proof("window"),
                   "--vk", VK["window"], stdin=json.dumps(PROOFS["winning"]["public_inputs"]).encode())
    assert found.code == 10 and "22 for window 2KiB" in found.lines[0] and "132" in found.lines[0]


# ---- vanilla
@pytest.mark.parametrize("kind", ["window", "winning"])
def test_vanilla(inside, kind, tmp_path):
    found = inside("vanilla", kind, *sectors(kind), *GIVEN)
    assert found.code == 0 and found.json["ok"] and found.json["prover_id"] == POSTS[kind]["prover_id"]
    for made, expected in zip(found.json["sectors"], POSTS[kind]["sectors"], strict=True):
        assert {name: made[name] for name in expected} == expected
    file = tmp_path / "v.json"
    assert inside("vanilla", kind, *sectors(kind), *GIVEN, "-o", file).json["file"] == str(file)
    assert inside("vanilla", kind, *sectors(kind), *GIVEN, "-o", file).code == 18
    raw = inside("vanilla", kind, *sectors(kind), *GIVEN, "-o", "-", "--format", "bincode").out
    want = json.loads((FIXTURES / "circuits" / f"{kind}-2KiB.json").read_text())["partitions"][0]
    for source, stdin in ((file, b""), ("-", raw), ("-", found.out)):
        digest = inside("circuit", "digest", kind, "--sector-size", "2KiB", "--vanilla", source, "--randomness",
                        RANDOMNESS, stdin=stdin)
        (made,) = json.loads(digest.out)["partitions"]
        assert {name: made[name] for name in want} == want


def test_vanilla_snap(inside, tmp_path):
    expected = json.loads((STORAGE / "update-cache" / "s-t01000-1" / "snap-vproof.json").read_text())
    found = inside("vanilla", "snap", SECTORS[0])
    assert found.code == 0 and found.json["proofs"] == expected
    assert json.loads(inside("vanilla", "update", SECTORS[0], "-o", "-").out) == expected


def test_lists_of_sectors(inside, tmp_path):
    def made(*arguments, stdin=b""):
        found = inside("vanilla", "window", *arguments, "--randomness", RANDOMNESS, "--replica", "sealed", stdin=stdin)
        return found.code, [(s["sector"], s["vanilla"]) for s in found.json.get("sectors", ())]

    expected = made(*SECTORS)
    assert expected[0] == 0
    lines = f"# two\n{SECTORS[1]} {POSTS['window']['sectors'][1]['comm_r']}\n\n{SECTORS[0]}   # the first\n"
    objects = [{"sector": str(SECTORS[0]), "comm_r": None}, {"number": 2, "comm_r": NUMBERED[1][2:]}]
    assert made("--sectors-file", "-", stdin=lines.encode()) == expected
    assert made("--sectors-file", "-", "--storage", STORAGE, "--miner", "f01000",
                stdin=json.dumps(objects).encode()) == expected
    assert made("1", "2", "--miner", "1000", "--storage", STORAGE, "--sector", NUMBERED[1]) == expected
    assert made("1", "--sector", "2:" + NUMBERED[0][2:], "--miner", "1000", "--storage", STORAGE)[0] == 10
    for text in ("", "a b c", "[3.5]", "[", '[{"comm_r": "x"}]', "[true]", "\xff"):
        found = inside("vanilla", "window", "--sectors-file", "-", *GIVEN, stdin=text.encode("latin-1"))
        assert found.code == 10 and "list of sectors" in found.lines[0]


def test_skip_faulty(inside, tmp_path):
    arguments = ["vanilla", "window", SECTORS[0], tmp_path / "s-t01000-7", *GIVEN]
    assert inside(*arguments).code == 10
    found = inside(*arguments, "--skip-faulty")
    assert found.code == 0 and [s["sector"] for s in found.json["sectors"]] == [1]
    assert found.json["faulty_sectors"][0]["sector"] == 7 and "s-t01000-7" in found.json["faulty_sectors"][0]["reason"]
    assert any("sector 7 left out" in text for text in found.warnings)


# ---- prove
@pytest.mark.parametrize("arguments, said", [
    ([], "--sectors-file"), ([SECTORS[0]], "--randomness"), ([SECTORS[0], *GIVEN, "--partition", "x"], "--partition"),
    ([SECTORS[0], *GIVEN, "--format", "x"], "--format")])
def test_prove_refuses(inside, arguments, said):
    found = inside("prove", "window", *arguments, "--progress", "none")
    assert found.code == 2 and said in "\n".join(found.lines)


def test_explain(inside):
    found = inside("prove", "wdpost", *SECTORS, *GIVEN, "--test-params", "--explain", "--progress", "none")
    (result,) = found.json["results"]
    assert result["ok"] and result["job_id"].startswith("window-1000-x-") and result["plan"]["constraints"] == 21_866
    assert [s["replica"] for s in result["sectors"]] == ["sealed", "sealed"]


def prove(folder, kind, *arguments):
    done = subprocess.run([*REAL, "prove", kind, *map(str, arguments), "--test-params", "--device", "cpu",
                           "--progress", "none"], capture_output=True, cwd=folder, env=own_caches(folder), timeout=900)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["window", "winning"])
def test_the_references_bytes(tmp_path, kind):
    """Parameters of the reference's digest, and its proof."""
    code, found = prove(tmp_path, kind, *sectors(kind), *GIVEN, "--insecure-randomness", "a")
    (result,) = found["results"]
    assert code == 0 and result["errors"] == []
    assert result["proof"] == PROOFS[kind]["proof"]
    assert result["partitions"] == [{"partition": 0, "proof": PROOFS[kind]["proof"]}]
    known = json.loads((FIXTURES / "params" / "digests.json").read_text())
    assert digest_file(result["parameters"]["file"]) in json.dumps(known)       # read again: none may be remembered
    assert result["verified"] and result["kind"] == kind and result["miner"] == 1000


@pytest.mark.slow
def test_partitions_of_a_window(tmp_path):
    """Three sectors are two partitions, the last one filled up; each verifies alone and all together."""
    third = FIXTURES / "sectors" / "2KiB"
    storage = tmp_path / "more"
    for name in ("sealed", "cache"):
        (storage / name).mkdir(parents=True)
        (storage / name / "s-t01000-3").symlink_to(third / name / "s-t01000-1")
    asked = [*SECTORS, storage / "s-t01000-3", "--randomness", RANDOMNESS, "--replica", "sealed"]
    code, found = prove(tmp_path, "window", *asked, "-o", "p.json")
    (result,) = found["results"]
    assert code == 0 and len(result["proof"]) == 2 * 384
    assert [p["partition"] for p in result["partitions"]] == [0, 1]
    assert result["proof"] == "".join(p["proof"] for p in result["partitions"])
    code, found = prove(tmp_path, "window", *asked, "--partition", "1")
    (result,) = found["results"]
    assert code == 0 and [p["partition"] for p in result["partitions"]] == [1] and len(result["proof"]) == 384
    done = subprocess.run([*REAL, "verify", "window", *map(str, asked), "--proof", "p.json", "--test-params"],
                          capture_output=True, cwd=tmp_path, env=own_caches(tmp_path), timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["partitions_verified"] == [True, True]
