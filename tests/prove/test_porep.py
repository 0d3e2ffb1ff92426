"""PoRep requests: what becomes of phase 1 outputs and public facts, and what is refused."""
import base64
import hashlib
import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.table import NON_INTERACTIVE, REGISTERED, SIZES, SYNTHETIC, V1, V1_1, Registered
from cuzk_cli.prove import circuits, porep
from cuzk_cli.prove.kind import job_id, network_takes
from cuzk_cli.prove.porep import Request
from cuzk_cli.sectors.commitments import to_cid

from ..sectors import sealing

FIXTURES = Path(__file__).parents[2] / "fixtures"
STORAGE = FIXTURES / "sectors" / "2KiB"
C1 = {n: str(STORAGE / f"s-t01000-{n}.c1.json") for n in (1, 2)}
FACTS = {n: json.loads((STORAGE / f"s-t01000-{n}.json").read_text()) for n in (1, 2)}
INPUTS = json.loads((FIXTURES / "proofs" / "proof-porep.json").read_text())["proofs"][0]["public_inputs"]
SEAL_INPUTS = json.loads((FIXTURES / "circuits" / "porep-inputs.json").read_text())
KNOWN = dict(comm_r=FACTS[1]["comm_r_old"], comm_d=FACTS[1]["comm_d_old"], ticket=FACTS[1]["ticket"],
             seed=FACTS[1]["interactive_seed"], sector_number=1)


@lru_cache(maxsize=None)
def sealed(version):
    one = sealing.seal(Registered("porep", version, SIZES[2048]))
    return one, sealing.as_object(one)


def as_json(version):
    return sealing.as_json(sealed(version)[1])


def refused(request, exit=Exit.INPUT, public=False):
    with pytest.raises(CuzkError) as raised:
        request.public() if public else request.prepare()
    assert raised.value.exit == exit
    return "\n".join(problem.line() for problem in raised.value.problems)


def shown(prepared, partition=0):
    return [w.tobytes().hex() for w in prepared.public_inputs(partition)]


# ---- phase 1 outputs
def test_the_references_output():
    prepared = Request(C1[1], miner="t01000").prepare()
    assert shown(prepared) == INPUTS and prepared.partitions == [0] and prepared.warnings == []
    facts = prepared.facts()
    assert (facts["sector"], facts["sector_number"], facts["registered_proof"], facts["registered_proof_name"]) == (
        "s-t01000-1", 1, 5, "StackedDrg2KiBV1_1")
    assert facts["porep_id"] == FACTS[1]["porep_id"] and facts["ticket"] == FACTS[1]["ticket"]
    assert facts["commitments"]["comm_r"]["hex"] == FACTS[1]["comm_r_old"] and "aggregated" not in facts
    assert job_id(prepared).startswith("porep-1000-1-")
    without = Request(C1[1]).prepare()
    assert (without.miner, without.number, without.facts()["sector"]) == (None, 1, None)
    assert without.identity() == prepared.identity()


def test_every_way_to_say_the_same():
    raw = base64.b64decode(json.loads(Path(C1[1]).read_text())["Phase1Out"])
    binary = (STORAGE / "s-t01000-1.c1.bin").read_bytes()
    comm_r, comm_d = (bytes.fromhex(KNOWN[name]) for name in ("comm_r", "comm_d"))
    seed = base64.b64encode(bytes.fromhex(KNOWN["seed"])).decode()
    told = dict(sector_number=1, prover_id=FACTS[1]["prover_id"], seed=seed,
                comm_r=to_cid("comm_r", comm_r), comm_d=base64.b64encode(comm_d).decode(), sector_size="2k",
                porep_id=FACTS[1]["porep_id"], ticket="0x" + KNOWN["ticket"].upper())
    identities = set()
    for data in (raw, binary, Path(C1[1]).read_bytes()):
        for registered in (None, "5", "StackedDrg2KiBV1_1", "registeredsealproof_stackeddrg2kibv1_1"):
            prepared = Request(data, registered_proof=registered, **told).prepare()
            assert prepared.miner == 1000
            identities.add(prepared.identity())
    assert identities == {Request(C1[1]).prepare().identity()}


@pytest.mark.parametrize("version", list(REGISTERED["porep"]))
@pytest.mark.parametrize("form", ["json", "binary"])
def test_versions_are_told_apart(version, form):
    one, value = sealed(version)
    data = as_json(version) if form == "json" else sealing.as_binary(value)
    prepared = Request(data, miner="1000", sector_number=7).prepare()
    assert prepared.registered.version == version and prepared.miner == 1000
    assert prepared.partitions == list(range(13 if version == NON_INTERACTIVE else 1))
    k = prepared.partitions[-1]
    a = circuits.synthesise("porep", 2048, prepared.witness(k))
    assert columns.unsatisfied(a) == 0 and (a.inputs[1:] == prepared.public_inputs(k)).all()
    from_facts = Request(prover_id=one.prover_id.hex(), sector_number=7, ticket=one.facts.ticket.hex(),
                         seed=one.facts.seed.hex(), comm_r=one.facts.comm_r.hex(), comm_d=one.facts.comm_d.hex(),
                         registered_proof=f"StackedDrg2KiB{version}").public()
    assert all(shown(from_facts, i) == shown(prepared, i) for i in prepared.partitions)
    assert from_facts.identity() == prepared.identity()


def test_non_interactive_says_that_it_is_no_aggregate():
    prepared = Request(as_json(NON_INTERACTIVE)).prepare()
    assert prepared.facts()["aggregated"] is False
    assert "13 partition proofs" in prepared.warnings[0] and "aggregate" in prepared.warnings[0]
    assert [network_takes(prepared.facts(), known) for known in (True, None)] == [False, False]
    interactive = Request(C1[1]).prepare().facts()
    assert [network_takes(interactive, known) for known in (True, False, None)] == [True, False, None]
    some = Request(as_json(NON_INTERACTIVE), partitions=(12, 3, 3)).prepare()
    assert some.partitions == [3, 12] and some.identity() != prepared.identity()
    assert "--partition" in refused(Request(as_json(NON_INTERACTIVE), partitions=(13,)), Exit.USAGE)


def test_a_porep_id_of_its_own():
    """It sets the 32 bytes; order and kind of challenges stay those of the registered proof."""
    own = bytes(range(32))
    prepared = Request(**KNOWN, miner="1000", registered_proof="0", porep_id=own.hex()).public()
    other = Request(**KNOWN, miner="1000", registered_proof="5", porep_id=own.hex()).public()
    assert prepared.porep_id == other.porep_id == own and shown(prepared)[:4] == shown(other)[:4]
    first, second = shown(prepared)[4:10], shown(other)[4:10]
    assert first != second and first[5:] + first[:5] == second      # V1 has the predecessor last
    assert shown(prepared)[0] != INPUTS[0]
    assert Request(**KNOWN, miner="1000", registered_proof="0").public().porep_id == bytes(32)


# ---- facts alone
@pytest.mark.parametrize("which", [dict(sector_size="2KiB"), dict(registered_proof="5"),
                                   dict(registered_proof="StackedDrg2KiBV1_1", sector_size="2048")])
@pytest.mark.parametrize("who", [dict(miner="t01000"), dict(prover_id=FACTS[1]["prover_id"]),
                                 dict(miner="f01000", prover_id=FACTS[1]["prover_id"])])
def test_from_facts(which, who):
    prepared = Request(**KNOWN, **which, **who).public()
    assert shown(prepared) == INPUTS and prepared.miner == 1000
    assert prepared.identity() == Request(C1[1]).prepare().identity()


def test_facts_of_real_size():
    prepared = Request(**KNOWN, miner="1000", registered_proof="8").public()
    assert prepared.partitions == list(range(10)) and len(shown(prepared, 9)) == 327
    assert [len(v) for v in {tuple(shown(prepared, k)) for k in range(10)}] == [327] * 10
    ni = {name: value for name, value in KNOWN.items() if name != "seed"}
    assert len(Request(**ni, miner="1000", registered_proof="18").public().partitions) == 126


@pytest.mark.parametrize("expected", SEAL_INPUTS["inputs"],
                         ids=lambda e: f"{SIZES[e['sector_size']].name}{e['version']}")
def test_facts_of_every_registered_proof(expected):
    """The reference's public inputs: both kinds of graph, three kinds of challenges, all sizes and partitions."""
    size, values = SIZES[expected["sector_size"]], {}
    for name in ("comm_r", "comm_d", "ticket", "seed"):
        digest = bytearray(hashlib.sha256(name.encode()).digest())
        digest[31] &= 0x3F
        values[name] = digest.hex()
    prepared = Request(**values, miner=str(SEAL_INPUTS["miner"]), sector_number=SEAL_INPUTS["sector"],
                       registered_proof=f"StackedDrg{size.name}{expected['version']}").public()
    rows = [prepared.public_inputs(k) for k in prepared.partitions]
    assert len(rows) == expected["partitions"] and {len(r) for r in rows} == {expected["inputs"]}
    digests = "".join(hashlib.sha256(r.tobytes()).hexdigest() for r in rows)
    assert hashlib.sha256(digests.encode()).hexdigest() == expected["sha256"]


@pytest.mark.parametrize("changes, said", [
    ({"comm_r": None}, "--comm-r"), ({"seed": None}, "--seed"), ({"ticket": None}, "--ticket"),
    ({"miner": None}, "--miner"),
    ({"sector_number": None}, "--sector-number"), ({"sector_size": None}, "--registered-proof"),
    ({"sector_size": "4KiB"}, "--sector-size"), ({"sector_size": "8MiB", "registered_proof": "5"}, "--sector-size"),
    ({"registered_proof": "20"}, "--registered-proof"), ({"seed": "00" * 31}, "31 bytes"),
    ({"ticket": "x"}, "--ticket"),
    ({"comm_d": "00" * 31}, "--comm-d"), ({"comm_d": "ff" * 32}, "--comm-d"), ({"porep_id": "00"}, "--porep-id"),
    ({"comm_r": to_cid("comm_d", bytes(32))}, "CommD given"), ({"miner": "t1abc"}, "--miner"),
    ({"prover_id": "11" * 32}, "one miner"), ({"sector_number": -1}, "--sector-number"),
    ({"sector_number": 1 << 64}, "--sector-number")])
def test_facts_that_are_refused(changes, said):
    request = Request(**{**KNOWN, "miner": "1000", "sector_size": "2KiB", **changes})
    assert said in refused(request, Exit.USAGE, public=True)


def test_all_that_is_wrong_is_said_at_once():
    said = refused(Request(C1[1], miner="x", seed="00", sector_size="3", registered_proof="99"), Exit.USAGE)
    assert all(option in said for option in ("--miner", "--seed", "--sector-size", "--registered-proof"))
    assert "--comm-r, --comm-d, --ticket, --seed" in refused(Request(), Exit.USAGE, public=True)
    assert "phase 1 output" in refused(Request(), Exit.USAGE)


# ---- another sector, another version, damage
@pytest.mark.parametrize("told, said", [
    (dict(miner="1001"), "replica id"), (dict(sector_number=2), "--sector-number"),
    (dict(comm_r=FACTS[2]["comm_r_old"]), "--comm-r"),
    (dict(seed=FACTS[2]["interactive_seed"]), "--seed"), (dict(ticket=FACTS[2]["ticket"]), "--ticket"),
    (dict(comm_d=FACTS[1]["comm_d_new"]), "--comm-d"), (dict(registered_proof="0"), "--registered-proof"),
    (dict(registered_proof="15"), "--registered-proof"), (dict(sector_size="32GiB"), "sector size"),
    (dict(porep_id="11" * 32), "check the vanilla proof"), (dict(porep_id="11" * 32, miner="1000"), "replica id")])
def test_another_sector(told, said):
    assert said in refused(Request(C1[1], **told)) and C1[1] in refused(Request(C1[1], **told))


def test_of_another_sector_without_a_wrapper():
    raw = base64.b64decode(json.loads(Path(C1[1]).read_text())["Phase1Out"])
    assert "replica id" in refused(Request(raw, miner="1000", sector_number=2))
    assert Request(raw, miner="1000", sector_number=1).prepare().number == 1


@pytest.mark.parametrize("version", [V1, V1_1, SYNTHETIC])
@pytest.mark.parametrize("said", [V1, V1_1, SYNTHETIC, NON_INTERACTIVE])
def test_the_wrong_registered_proof(version, said):
    if said == version:
        return
    value = {**sealed(version)[1], "registered_proof": f"StackedDrg2KiB{said}"}
    lines = refused(Request(json.dumps(value).encode()))
    if said == NON_INTERACTIVE:
        assert "count the partitions" in lines and "13" in lines
    else:
        assert f"those of StackedDrg2KiB{version}" in lines and "registered proof is another" in lines
    assert "registered proof" in refused(Request(json.dumps(value).encode(), miner="1000", sector_number=7))


def test_damage_is_found_before_synthesis():
    value = json.loads(as_json(V1_1))
    value["vanilla_proofs"]["StackedDrg2KiBV1"][0][1]["labeling_proofs"][0]["parents"][5][0] ^= 1
    request = Request(json.dumps(value).encode())
    assert "challenge 1: parent 5 of label 1" in refused(request)
    value["ticket"][0] ^= 1         # hangs on nothing where the miner is not known
    assert "replica id" in refused(Request(json.dumps(value).encode(), miner="1000", sector_number=7))
    taken = request.prepare(check=False)        # the circuit takes parents from their columns
    assert columns.unsatisfied(circuits.synthesise("porep", 2048, taken.witness(0))) == 0


def test_what_a_digest_takes_is_not_refused():
    value = json.loads(as_json(V1_1))
    value["seed"][0] ^= 1
    refused(Request(json.dumps(value).encode()))
    taken = Request(json.dumps(value).encode(), registered_proof="5").prepare(check=False)
    assert columns.unsatisfied(circuits.synthesise("porep", 2048, taken.witness(0))) > 0


def test_files_that_are_not_there(tmp_path):
    assert "nowhere" in refused(Request(str(tmp_path / "nowhere")))
    (tmp_path / "empty").touch()
    assert "empty" in refused(Request(str(tmp_path / "empty")))
    assert str(tmp_path) in refused(Request(str(tmp_path)))


def test_labels():
    assert Request(C1[1]).label == "s-t01000-1" and Request("/a/.json").label == "c1"
    assert Request(b"{}", miner="f01000", sector_number=3).label == "s-t01000-3"
    assert Request(b"{}", miner="../x", sector_number=3).label == Request(b"{}").label == "c1"
    assert porep.Request(b"{}", sector_number=1 << 60).subject() == {"c1": None, "sector_number": str(1 << 60)}
    assert np.asarray(Request(C1[2]).prepare().challenges(0)).shape == (2,)
