"""PoRep's vanilla proofs: challenges, the check of sectors sealed here and by the reference, and what it refuses."""
import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.fr import R_ORDER
from cuzk_cli.protocol.table import NON_INTERACTIVE, REGISTERED, SIZES, SYNTHETIC, V1, V1_1, Registered
from cuzk_cli.sectors import c1, graph, stacked
from cuzk_cli.sectors.stacked import Facts, Proofs
from cuzk_cli.sectors.vanilla import Paths

from . import sealing

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sectors" / "2KiB"
VERSIONS = list(REGISTERED["porep"])


@lru_cache(maxsize=None)
def sealed(version=V1_1, size=2048, number=7):
    return sealing.seal(Registered("porep", version, SIZES[size]), number)


def check(one, proofs=None, facts=None, partition=0):
    size, version = one.registered.size, one.registered.version
    facts = facts or one.facts
    challenged = stacked.challenges(version, size, one.facts, partition)
    parents = graph.parents(size, one.registered.porep_id, version, challenged)
    count = size.porep_challenges
    proofs = proofs or one.proofs.part(partition * count, count)
    stacked.check(proofs, partition, facts, challenged, parents, size, path="c1.json")


def refused(one, **given):
    with pytest.raises(CuzkError) as raised:
        check(one, **given)
    assert raised.value.exit == Exit.INPUT and raised.value.problems[0].path == "c1.json"
    return "\n".join(problem.line() for problem in raised.value.problems)


# ---- challenges
@given(st.sampled_from([V1, V1_1, NON_INTERACTIVE]), st.sampled_from([2 << 10, 32 << 30]), st.integers(0, 9),
       *(st.binary(min_size=32, max_size=32) for _ in range(3)))
def test_challenges_against_the_definition(version, size, partition, replica_id, comm_r, seed):
    size, facts = SIZES[size], Facts(replica_id, comm_r, bytes(32), seed, bytes(32))
    expected = []
    for i in range(size.porep_challenges):
        head = b"filecoin.io|PoRep|1|NonInteractive|1" + replica_id + comm_r if version == NON_INTERACTIVE else \
            replica_id + seed
        number = partition * size.porep_challenges + i
        digest = hashlib.sha256(head + number.to_bytes(4, "little")).digest()
        expected.append(int.from_bytes(digest, "little") % (size.nodes - 1) + 1)
    assert stacked.challenges(version, size, facts, partition).tolist() == expected


def test_synthetic_challenges_are_the_references():
    """storage-proofs-porep src/stacked/vanilla/challenges.rs, test_synth_challenges_against_hardcoded."""
    fr = lambda value: value.to_bytes(32, "little")
    facts = Facts(fr(55), fr(101), bytes(32), bytes([1]) * 32, bytes(32))
    found = stacked._synthetic(1 << 10, facts, range(10), 21)
    assert found.tolist() == [176, 781, 801, 986, 290, 211, 692, 856, 986, 332]


def test_synthetic_partitions_are_parts_of_one_list():
    facts, size = sealed(SYNTHETIC).facts, SIZES[32 << 30]
    whole = stacked._synthetic(size.nodes, facts, range(180), 1 << 18).tolist()
    assert [c for k in range(10) for c in stacked.challenges(SYNTHETIC, size, facts, k).tolist()] == whole
    assert len(set(whole)) > 170 and max(whole) > 1 << 29


def test_partitions():
    assert [stacked.partitions(v, SIZES[2048]) for v in VERSIONS] == [1, 1, 1, 13]
    assert [stacked.partitions(v, SIZES[64 << 30]) for v in VERSIONS] == [10, 10, 10, 126]


def test_replica_id():
    found = c1.parse((FIXTURES / "s-t01000-2.c1.json").read_bytes())
    prover = bytes.fromhex("e807").ljust(32, b"\0")
    assert stacked.replica_id(prover, 2, found.facts.ticket, found.facts.comm_d, found.registered.porep_id) == \
        found.facts.replica_id


# ---- the check
@pytest.mark.parametrize("version", VERSIONS)
def test_sealed_here(version):
    one = sealed(version)
    for partition in range(one.partitions):
        check(one, partition=partition)
    assert stacked.recognise(one.registered.size, one.proofs, one.facts) == version


def test_sealed_here_at_real_size():
    one = sealed(V1_1, 32 << 30)
    for partition in (0, 9):
        check(one, partition=partition)


@pytest.mark.parametrize("number", [1, 2])
def test_the_references_proofs(number):
    found = c1.parse((FIXTURES / f"s-t01000-{number}.c1.json").read_bytes())
    check(sealing.Sealed(found.registered, None, number, found.facts, 1, found.proofs))


def test_labels_are_those_of_the_production_code():
    one = sealed()
    node = one.proofs.label_node[0, 0]
    rows = one.proofs.column_rows
    found = stacked.label(one.facts.replica_id, 1, int(node), one.proofs.label_parents[0, 0].tobytes())
    assert found == rows[0, 0, 0].tobytes()


def replaced(proofs, name, field, array):
    """With another array in the place of one."""
    return proofs._replace(**{name: array if field is None else getattr(proofs, name)._replace(**{field: array})})


def copied(proofs, name, field):
    return (getattr(proofs, name) if field is None else getattr(getattr(proofs, name), field)).copy()


ARRAYS = [(name, field) for name in ("data", "replica", "columns") for field in Paths._fields] + [
    (name, None) for name in Proofs._fields[3:]]


@pytest.mark.parametrize("name, field", ARRAYS)
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("version", [V1_1, NON_INTERACTIVE])
def test_every_value_counts(name, field, place, version):
    one = sealed(version)
    partition = one.partitions - 1
    proofs = one.proofs.part(partition * 2, 2)
    array = copied(proofs, name, field)
    array.reshape(-1)[place if field != "siblings" else place * 4] ^= array.dtype.type(1)
    assert f"partition {partition}" in refused(one, proofs=replaced(proofs, name, field, array), partition=partition)


@pytest.mark.parametrize("name, field, said", [
    ("data", "leaf", "leaf in tree D"), ("replica", "siblings", "sibling in tree R"),
    ("columns", "root", "root in tree C"), ("column_rows", None, "row of a column"),
    ("label_parents", None, "parent of a label")])
def test_no_field_elements(name, field, said):
    one = sealed()
    array = copied(one.proofs, name, field)
    array.reshape(-1, 4)[-1] = np.frombuffer(R_ORDER.to_bytes(32, "little"), "<u8")
    changed = replaced(one.proofs, name, field, array)
    assert f"challenge 1: {said} is no field element" in refused(one, proofs=changed)


@pytest.mark.parametrize("name, said", [
    ("comm_d", "comm_d"), ("comm_r", "comm_r"), ("replica_id", "label 1 is not the hash")])
def test_other_facts(name, said):
    one = sealed()
    facts = one.facts._replace(**{name: bytes([1]) + bytes(31)})
    assert said in refused(one, facts=facts)


def test_of_another_sector():
    assert "another node" in refused(sealed(), proofs=sealed(number=8).proofs)


def test_wild_positions_are_no_crash():
    one = sealed()
    position = one.proofs.columns.position.copy()
    position[3] = [2**62, -1]
    changed = replaced(one.proofs, "columns", "position", position)
    assert "the path in tree C, DRG parent 2, is for another leaf" in refused(one, proofs=changed)
