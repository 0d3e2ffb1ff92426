"""The SnapDeals circuit against the reference: rows, every partition's witness, and input that does not satisfy it."""
import json
import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns, digest, snap
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol import table
from cuzk_cli.sectors import encoding, vanilla

from .plain import check_rows

FIXTURES = Path(__file__).parents[2] / "fixtures"
SECTORS = [("2KiB", 1), ("2KiB", 2), ("4KiB", 1), ("16KiB", 1), ("32KiB", 1)]
COMMITMENTS = ("comm_r_old", "comm_d_new", "comm_r_new")
slow = pytest.mark.slow


def shape(name: str) -> snap.Shape:
    s = table.parse_size(name)
    return snap.Shape(s.name, s.log_nodes, s.snap_partitions, s.snap_challenges, s.snap_apex_leaves, s.snap_hs,
                      s.arities)


@lru_cache(maxsize=2)
def structure(name: str):
    return snap.build(shape(name))


def expected(name: str) -> dict[int, dict]:
    """The reference's digests by partition."""
    value = json.loads((FIXTURES / "circuits" / f"snap-{name}.json").read_text())
    return {p["partition"]: p for p in value["partitions"]}


def sector(name: str, number: int = 1) -> tuple[dict, dict[int, bytes]]:
    """Commitments and the vanilla proofs by partition, of the sectors whose files are here."""
    folder = FIXTURES / "sectors" / name
    facts = json.loads((folder / f"s-t01000-{number}.json").read_text())
    data = (folder / "update-cache" / f"s-t01000-{number}" / "snap-vproof.json").read_bytes()
    return facts, dict(enumerate(encoding.read_json(data)[0]))


def packed_sector(name: str) -> tuple[dict, dict[int, bytes]]:
    """The same for sectors of which only the vanilla proofs are kept."""
    facts = json.loads(lzma.decompress((FIXTURES / "circuits" / f"snap-{name}-vanilla.json.xz").read_bytes()))
    data, _ = encoding.read_json(json.dumps(list(facts["proofs"].values())).encode())
    return facts, dict(zip(map(int, facts["proofs"]), data))


def witness(name: str, facts: dict, proof, partition: int, h: int | None = None) -> snap.PartitionWitness:
    size = table.parse_size(name)
    words = [np.frombuffer(bytes.fromhex(facts[c]), "<u8") for c in COMMITMENTS]
    return snap.PartitionWitness(
        partition + size.snap_h_select(h) * size.snap_partitions, *words, proof.comm_c, proof.r_old.root[0],
        proof.r_new.root[0], proof.apex_leaves, proof.r_old.leaf, proof.d_new.leaf, proof.r_old.siblings,
        proof.r_new.siblings, proof.d_new.siblings)


def check(name: str, facts: dict, proofs: dict[int, bytes], reference: dict[int, dict], h: int | None = None) -> None:
    for k, entry in reference.items():
        proof = encoding.decode(proofs[k], table.parse_size(name), k)
        a = snap.synthesise(structure(name), shape(name), witness(name, facts, proof, k, h))
        assert [w.tobytes().hex() for w in a.inputs[1:]] == entry["public_inputs"]
        assert digest.witness_sha256(a) == entry["witness_sha256"]
        assert columns.unsatisfied(a) == entry["unsatisfied"]


@pytest.mark.parametrize("name", ["2KiB", "4KiB", "16KiB", "32KiB", "8MiB", pytest.param("512MiB", marks=slow),
                                  pytest.param("32GiB", marks=slow)])
def test_rows(name):
    s, entry = structure(name), expected(name)[0]
    assert (s.n_rows, s.n_aux, s.n_inputs) == (entry["constraints"], entry["aux"], entry["inputs_with_one"])
    assert s.terms() == entry["nnz"]
    assert digest.rows_sha256(s) == entry["rows_sha256"]


# rows and auxiliary variables (storage-proofs-update tests/circuit.rs and its formula), log2 of the domain
@pytest.mark.parametrize("name,rows,aux,log_m", [
    ("2KiB", 1_705_039, 1_703_569, 21), ("4KiB", 2_165_109, 2_163_189, 22), ("16KiB", 6_300_021, 6_293_944, 23),
    ("32KiB", 6_760_091, 6_753_564, 23), ("8MiB", 10_007_503, 9_998_039, 24), ("16MiB", 10_467_573, 10_457_659, 24),
    ("512MiB", 57_450_479, 57_401_314, 26), ("32GiB", 81_049_499, 80_978_488, 27),
    ("64GiB", 85_006_101, 84_931_220, 27),
])
def test_counts(name, rows, aux, log_m):
    s = structure(name)
    assert (s.n_rows, s.n_aux, s.n_inputs, s.log_m) == (rows, aux, 5, log_m)


def test_densities_are_those_of_the_parameter_file():
    files = json.loads((FIXTURES / "params" / "digests.json").read_text())
    found = next(file for file in files if file["circuit"] == "snap 2KiB")
    s = structure("2KiB")
    assert s.b_input.tolist() == [True, False, False, False, False]
    assert s.n_inputs + int(s.a_aux.sum()) == 1_697_194 == found["a"]
    assert 1 + int(s.b_aux.sum()) == 444_404 == found["b_g1"]


@pytest.mark.parametrize("name,number", SECTORS)
def test_witness_of_every_partition(name, number):
    reference = expected(name if number == 1 else f"{name}-sector-{number}")
    facts, proofs = sector(name, number)
    assert len(reference) == len(proofs) == table.parse_size(name).snap_partitions
    check(name, facts, proofs, reference)


def test_witness_of_8mib():
    check("8MiB", *packed_sector("8MiB"), expected("8MiB"))


@slow
def test_witness_of_a_uniform_32gib_sector():
    check("32GiB", *packed_sector("32GiB-uniform"), expected("32GiB-uniform"))


@pytest.mark.parametrize("h", [7, 12])
def test_another_height_is_assigned_and_does_not_hold(h):
    """The public input selects h while the sector was encoded with 10; leaf_r_new follows from the circuit alone."""
    check("8MiB", *packed_sector("8MiB"), expected(f"8MiB-h{h}"), h)


def corrupt(proof: vanilla.PartitionProof) -> vanilla.PartitionProof:
    """The proof from which the reference made snap-2KiB-corrupt.json."""
    comm_c, apex = proof.comm_c.copy(), proof.apex_leaves.copy()
    comm_c[0] ^= np.uint64(1)
    apex[3, 1] ^= np.uint64(4)
    octal, binary = proof.r_old.siblings.copy(), proof.d_new.siblings.copy()
    octal[2, 5, 0] ^= np.uint64(8)
    octal[9] = 0
    binary[4, 0, 2] ^= np.uint64(1)
    binary[7] = 0
    return proof._replace(comm_c=comm_c, apex_leaves=apex, r_old=proof.r_old._replace(siblings=octal),
                          d_new=proof.d_new._replace(siblings=binary))


def test_corrupt_vanilla_data_is_assigned_as_the_reference_does():
    facts, proofs = sector("2KiB")
    size, entry = table.parse_size("2KiB"), expected("2KiB-corrupt")
    assert entry[0]["unsatisfied"] == 9
    check("2KiB", facts, {0: encoding.encode(corrupt(encoding.decode(proofs[0], size, 0)), size)}, entry)


@pytest.mark.parametrize("broken", [False, True])
def test_row_values_in_plain_integers(broken):
    """A sample of rows from every part of the circuit; with broken input too."""
    facts, proofs = sector("2KiB")
    proof = encoding.decode(proofs[0], table.parse_size("2KiB"), 0)
    s = structure("2KiB")
    a = snap.synthesise(s, shape("2KiB"), witness("2KiB", facts, corrupt(proof) if broken else proof, 0))
    rng = np.random.default_rng(1)
    wide = np.concatenate([rng.choice(m.wide_index[m.wide_index < s.n_rows], 40) for m in (a.a, a.b, a.c)])
    check_rows(s, a, np.concatenate([rng.integers(0, s.n_rows, 80), wide]).tolist())


def test_what_is_no_field_element_is_refused():
    facts, proofs = sector("2KiB")
    proof = encoding.decode(proofs[0], table.parse_size("2KiB"), 0)
    w = witness("2KiB", facts, proof, 0)._replace(comm_r_new=np.full(4, 2**64 - 1, np.uint64))
    with pytest.raises(CuzkError) as caught:
        snap.synthesise(structure("2KiB"), shape("2KiB"), w)
    assert caught.value.exit == Exit.INPUT and "ff" * 32 in str(caught.value)
