"""WinningPoSt and WindowPoSt requests: what becomes of files, vanilla proofs and facts, and what is refused."""
import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns, digest, fallback
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.poseidon import poseidon_batch
from cuzk_cli.protocol.table import SIZES
from cuzk_cli.prove import circuits, post
from cuzk_cli.prove.post import Request, Wanted
from cuzk_cli.sectors.commitments import to_cid

FIXTURES = Path(__file__).parents[2] / "fixtures"
SECTORS = FIXTURES / "sectors" / "2KiB"
FACTS = {kind: json.loads((FIXTURES / "posts" / f"{kind}-vanilla.json").read_text()) for kind in ("window", "winning")}
RANDOMNESS = FACTS["window"]["randomness"]
ONE, TWO = (Wanted(str(SECTORS / f"s-t01000-{n}")) for n in (1, 2))
COMM_R = {entry["sector"]: entry["comm_r"] for entry in FACTS["window"]["sectors"]}
UPDATED = {n: json.loads((SECTORS / f"s-t01000-{n}.json").read_text())["comm_r_new"] for n in (1, 2)}


def request(kind="window", sectors=(ONE, TWO), **more):
    return Request(kind, sectors[:1] if kind == "winning" else sectors,
                   **{"randomness": RANDOMNESS, "replica": "sealed", **more})


def refused(request, exit=Exit.INPUT, check=True):
    with pytest.raises(CuzkError) as raised:
        request.prepare(check=check)
    assert raised.value.exit == exit
    return "\n".join(problem.line() for problem in raised.value.problems)


@pytest.fixture
def storage(tmp_path):
    """A copy of the two sectors, to damage."""
    for name in ("sealed", "cache", "update", "update-cache"):
        shutil.copytree(SECTORS / name, tmp_path / name)
    return tmp_path


# ---- files
@pytest.mark.parametrize("kind", ["window", "winning"])
def test_the_references_vanilla_proofs_and_witness(kind):
    prepared = request(kind).prepare()
    assert [base64.b64encode(data).decode() for data in prepared.vanilla()] == [
        e["vanilla"] for e in FACTS[kind]["sectors"]]
    shown = prepared.vanilla_facts()["sectors"]
    assert [(e["sector"], e["comm_r"], e["challenges"], e["vanilla"]) for e in shown] == [
        (e["sector"], e["comm_r"], e["challenges"], e["vanilla"]) for e in FACTS[kind]["sectors"]]
    want = json.loads((FIXTURES / "circuits" / f"{kind}-2KiB.json").read_text())["partitions"][0]
    assignment = circuits.synthesise(kind, 2048, prepared.witness(0))
    assert digest.witness_sha256(assignment) == want["witness_sha256"] and columns.unsatisfied(assignment) == 0
    assert [w.tobytes().hex() for w in prepared.public_inputs(0)] == want["public_inputs"]
    assert prepared.miner == 1000 and prepared.number == (1 if kind == "winning" else None)


def test_order_does_not_matter_and_the_last_sector_fills_up():
    straight, reverse = request().prepare(), request(sectors=(TWO, ONE)).prepare()
    assert straight.identity() == reverse.identity() and straight.vanilla() == reverse.vanilla()
    alone = request(sectors=(ONE,)).prepare()
    inputs = alone.public_inputs(0)
    assert (inputs[:11] == inputs[11:]).all() and (inputs[:11] == straight.public_inputs(0)[:11]).all()
    assignment = circuits.synthesise("window", 2048, alone.witness(0))
    assert columns.unsatisfied(assignment) == 0 and (assignment.inputs[1:] == inputs).all()


@pytest.mark.parametrize("replica, comm_r, said", [
    ("sealed", None, "sealed"), ("update", None, "update"), ("auto", None, "update"), ("auto", COMM_R, "sealed"),
    ("auto", UPDATED, "update"), ("sealed", COMM_R, "sealed")])
def test_which_replica(replica, comm_r, said):
    sectors = tuple(one._replace(comm_r=comm_r and comm_r[n]) for n, one in ((1, ONE), (2, TWO)))
    prepared = request(sectors=sectors, replica=replica).prepare()
    expected = COMM_R if said == "sealed" else UPDATED
    assert [(e["sector"], e["replica"], e["comm_r"]) for e in prepared.facts()["sectors"]] == [
        (n, said, expected[n]) for n in (1, 2)]
    assert columns.unsatisfied(circuits.synthesise("window", 2048, prepared.witness(0))) == 0


def test_auto_without_an_update(storage):
    (storage / "update" / "s-t01000-1").unlink()
    prepared = request("winning", (Wanted(str(storage / "s-t01000-1")),), replica="auto").prepare()
    assert prepared.facts()["sectors"][0]["replica"] == "sealed"


@pytest.mark.parametrize("registered, number, places", [
    (None, 10, False), ("10", 10, False), ("StackedDrgWindow2KiBV1_1", 10, False),
    ("StackedDrgWindow2KiBV1P1", 10, False), ("StackedDrgWindow2KiBV1_2", 10, False), ("5", 5, True),
    ("StackedDrgWindow2KiBV1", 5, True)])
def test_versions(registered, number, places):
    prepared = request(registered_proof=registered).prepare()
    assert prepared.facts()["registered_proof"] == number
    second = FACTS["window"]["sectors"][1]["challenges"]
    assert (prepared.sectors[1].index.tolist() != second) == places
    assert prepared.sectors[0].index.tolist() == FACTS["window"]["sectors"][0]["challenges"]
    assert columns.unsatisfied(circuits.synthesise("window", 2048, prepared.witness(0))) == 0


# ---- vanilla proofs and facts
@pytest.mark.parametrize("form", ["object", "list", "bincode"])
def test_from_vanilla_proofs(form):
    texts = [entry["vanilla"] for entry in FACTS["window"]["sectors"]]
    raw = b"".join(map(base64.b64decode, texts))
    data = raw if form == "bincode" else json.dumps(FACTS["window"] if form == "object" else texts).encode()
    prepared = request(sectors=(), vanilla=data, sector_size="2KiB", miner="t01000").prepare()
    files = request().prepare()
    assert prepared.identity() == files.identity() and prepared.vanilla() == files.vanilla()
    assert prepared.facts()["prover_id"] == FACTS["window"]["prover_id"]


def test_from_facts_alone():
    files = request().prepare()
    for texts in (COMM_R, {n: to_cid("comm_r", bytes.fromhex(text)) for n, text in COMM_R.items()}):
        public = request(sectors=tuple(Wanted(str(n), text) for n, text in texts.items()), sector_size="2KiB").public()
        assert public.identity() == files.identity()
        assert (public.public_inputs(0) == files.public_inputs(0)).all()
    assert (request().public().public_inputs(0) == files.public_inputs(0)).all()


def test_randomness_forms_and_its_two_top_bits():
    expected = request().prepare().randomness
    text = base64.b64encode(bytes.fromhex(RANDOMNESS)).decode()
    for form in ("0x" + RANDOMNESS, RANDOMNESS.upper(), text, text.rstrip("=")):
        prepared = request(randomness=form).prepare()
        assert prepared.randomness == expected and not prepared.warnings
    high = bytes.fromhex(RANDOMNESS)[:31] + bytes([expected[31] | 0xC0])
    prepared = request(randomness=high.hex()).prepare()
    assert prepared.randomness == expected and "top bits" in prepared.warnings[0]


# ---- what is refused
@pytest.mark.parametrize("more, exit, said", [
    ({"randomness": RANDOMNESS[2:]}, Exit.USAGE, "31 bytes"), ({"randomness": None}, Exit.USAGE, "not given"),
    ({"randomness": "zz"}, Exit.USAGE, "--randomness"), ({"sectors": (ONE, TWO, ONE)}, Exit.INPUT, "sector 1 twice"),
    ({"sectors": ()}, Exit.USAGE, "sectors, or --vanilla"), ({"sector_size": "8MiB"}, Exit.INPUT, "8MiB"),
    ({"registered_proof": "11"}, Exit.INPUT, "8MiB"), ({"registered_proof": "0"}, Exit.USAGE, "--registered-proof"),
    ({"registered_proof": "StackedDrgWinning2KiBV1"}, Exit.USAGE, "--registered-proof"),
    ({"registered_proof": "10", "sector_size": "8MiB"}, Exit.USAGE, "--registered-proof"),
    ({"replica": "best"}, Exit.USAGE, "--replica"), ({"partitions": (1,)}, Exit.USAGE, "--partition"),
    ({"miner": "t01001"}, Exit.INPUT, "t01000"), ({"miner": "x"}, Exit.USAGE, "--miner"),
    ({"prover_id": "00"}, Exit.USAGE, "--prover-id"),
    ({"miner": "1000", "prover_id": "11" * 32}, Exit.USAGE, "--prover-id"),
    ({"sectors": (Wanted("1"),)}, Exit.USAGE, "number alone"),
    ({"sectors": (Wanted("nonsense"),)}, Exit.USAGE, "nonsense"),
    ({"sectors": (ONE._replace(comm_r=COMM_R[2]),)}, Exit.INPUT, "compare comm_r"),
    ({"sectors": (ONE._replace(comm_r="x"),)}, Exit.USAGE, "comm_r of sector 1"),
    ({"sectors": (ONE, Wanted("/nowhere/s-t01000-9"))}, Exit.INPUT, "s-t01000-9")])
def test_bad_options(more, exit, said):
    assert said in refused(request(**more), exit)


def test_two_sectors_are_no_winning_post():
    assert "one sector" in refused(Request("winning", (ONE, TWO), RANDOMNESS), Exit.USAGE)


def test_a_sector_of_another_size():
    other = FIXTURES / "sectors" / "4KiB" / "s-t01000-1"
    assert "2KiB" in refused(request(sectors=(Wanted(str(other)), TWO)))


@pytest.mark.parametrize("kind, name", [("winning", "window"), ("window", "winning")])
def test_a_challenge_count_that_does_not_fit(kind, name):
    data = json.dumps([FACTS[name]["sectors"][0]["vanilla"]]).encode()
    said = refused(request(kind, (), vanilla=data, sector_size="2KiB"))
    assert f"{10 if kind == 'window' else 66} challenges" in said


def changed_vanilla(name, index, words):
    prepared = request().prepare()
    proof = prepared.proofs[0]
    array = getattr(proof.paths, name).copy()
    array[index] = words(array[index])
    proof = proof._replace(paths=proof.paths._replace(**{name: array}))
    return base64.b64encode(post.post.encode(proof, prepared.size)).decode()


def test_a_path_that_does_not_lead_to_its_root():
    text = changed_vanilla("siblings", (3, 7), lambda words: words ^ np.uint64(1))
    data = json.dumps([text, FACTS["window"]["sectors"][1]["vanilla"]]).encode()
    asked = request(sectors=(), vanilla=data, sector_size="2KiB")
    assert "sector 1, challenge 3: the path does not lead to its root" in refused(asked)
    prepared = asked.prepare(check=False)       # a digest takes it, and counts
    assert columns.unsatisfied(circuits.synthesise("window", 2048, prepared.witness(0))) > 0


def test_vanilla_proofs_for_other_randomness_and_twice_the_same():
    texts = [entry["vanilla"] for entry in FACTS["window"]["sectors"]]
    data = json.dumps(texts).encode()
    assert "another leaf" in refused(request(sectors=(), vanilla=data, sector_size="2KiB", randomness="11" * 32))
    twice = json.dumps(texts[:1] * 2).encode()
    assert "sector 1 twice" in refused(request(sectors=(), vanilla=twice, sector_size="2KiB"))
    given = tuple(Wanted(str(n), COMM_R[3 - n]) for n in (1, 2))
    assert "comm_r of sector 1" in refused(request(sectors=given, vanilla=data, sector_size="2KiB"))
    assert "compare the vanilla" in refused(request(sectors=(Wanted("1"),), vanilla=data, sector_size="2KiB"))


@pytest.mark.parametrize("name, byte, comm_r", [
    ("cache/s-t01000-1/p_aux", 0, COMM_R[1]), ("cache/s-t01000-1/p_aux", 32, None), ("sealed/s-t01000-1", 0, None),
    ("cache/s-t01000-1/sc-02-data-tree-r-last.dat", 0, None)])
def test_a_damaged_sector_is_refused_but_digested(storage, name, byte, comm_r):
    data = bytearray((storage / name).read_bytes())
    data[byte] ^= 1
    (storage / name).write_bytes(data)
    asked = request(sectors=(Wanted(str(storage / "s-t01000-1"), comm_r),))
    assert "another sector" in refused(asked)
    prepared = asked.prepare(check=False)
    assert prepared.warnings and len(prepared.proofs) == 1


def test_faulty_sectors_are_left_out_and_named(storage):
    (storage / "cache" / "s-t01000-1" / "p_aux").unlink()
    sectors = tuple(Wanted(str(storage / f"s-t01000-{n}")) for n in (1, 2))
    assert "p_aux" in refused(request(sectors=sectors))
    prepared = request(sectors=sectors, skip_faulty=True).prepare()
    (faulty,) = prepared.facts()["faulty_sectors"]
    assert faulty["sector"] == 1 and "p_aux" in faulty["reason"] and "sector 1 left out" in prepared.warnings[0]
    assert [entry["sector"] for entry in prepared.facts()["sectors"]] == [2]
    old = request(sectors=sectors, skip_faulty=True, registered_proof="5").prepare()    # places count in V1
    first = post.post.challenges("window", "V1", old.size, old.randomness, 2, 0)
    assert old.sectors[0].index.tolist() == first.tolist()
    assert "p_aux" in refused(request("winning", sectors, skip_faulty=True))            # nothing is left


def test_labels():
    assert request("winning").label == "s-t01000-1" and request().label == "t01000"
    assert request(sectors=(), vanilla=b"", miner="../x").label == "vanilla"
    assert Request("window", (Wanted("1"), Wanted("2"))).label == "vanilla"


def test_sectors_of_real_size_from_sparse_files(tmp_path):
    """32 GiB of zeros each: rows of tree R that are not stored are rebuilt, and a partition of 2349 is filled up."""
    size = SIZES[32 << 30]
    nodes = [np.zeros((1, 4), np.uint64)]
    for arity in size.arities:
        nodes.append(poseidon_batch(np.repeat(nodes[-1], arity, axis=0)[None]))
    rows = b"".join(nodes[height].tobytes() * 8 ** (9 - height) for height in range(3, 10))
    for number in (1, 2):
        cache = tmp_path / "cache" / f"s-t01000-{number}"
        cache.mkdir(parents=True)
        (cache / "p_aux").write_bytes(number.to_bytes(32, "little") + nodes[-1].tobytes())
        for i in range(8):
            (cache / f"sc-02-data-tree-r-last-{i}.dat").write_bytes(rows)
        sealed = tmp_path / "sealed" / f"s-t01000-{number}"
        sealed.parent.mkdir(exist_ok=True)
        with open(sealed, "wb") as file:
            file.truncate(size.bytes)
    prepared = request(sectors=tuple(Wanted(str(tmp_path / f"s-t01000-{n}")) for n in (1, 2))).prepare()
    assert prepared.partitions == [0] and len(prepared.public_inputs(0)) == 25_839
    assert {len(data) for data in prepared.vanilla()} == {24_960}
    shape = circuits.CIRCUITS["window"].shape(size)
    witness = prepared.witness(0)
    part = next(fallback.in_parts(shape, witness, 4))
    assert columns.unsatisfied(part) == 0
    assert (fallback.inputs(shape, witness)[1:] == prepared.public_inputs(0)).all()
