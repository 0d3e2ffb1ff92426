"""The fallback PoSt's circuit against the reference's digests, whole and in parts, up to a full window partition."""
import base64
import json
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns, digest, fallback
from cuzk_cli.protocol.poseidon import poseidon_batch
from cuzk_cli.protocol.table import SIZES
from cuzk_cli.prove import circuits
from cuzk_cli.sectors import post
from cuzk_cli.sectors.vanilla import Paths, positions

FIXTURES = Path(__file__).parents[2] / "fixtures"


def expected(name):
    return json.loads((FIXTURES / "circuits" / f"{name}.json").read_text())["partitions"][0]


def window_witness():
    """Of the two sectors of the fixture."""
    sectors = json.loads((FIXTURES / "posts" / "window-vanilla.json").read_text())["sectors"]
    return stacked([post.decode(base64.b64decode(s["vanilla"]), SIZES[2048], 10) for s in sectors])


def stacked(proofs):
    return fallback.PartitionWitness(
        np.stack([p.comm_r_last for p in proofs]), np.stack([p.comm_c for p in proofs]),
        np.stack([np.frombuffer(p.comm_r, "<u8") for p in proofs]),
        *(np.stack([getattr(p.paths, name) for p in proofs]) for name in ("leaf", "position", "siblings")))


def uniform(size, count, randomness=bytes(32)):
    """Vanilla proofs of `count` sectors of any size, each with one node everywhere in its replica: no files needed."""
    numbers = np.arange(1, count + 1)
    node = np.zeros((count, 4), np.uint64)
    node[:, 0] = numbers + 1000
    leaf, siblings = node, []
    for arity in size.arities:
        siblings.append(np.broadcast_to(node[:, None], (count, arity - 1, 4)))
        node = poseidon_batch(np.ascontiguousarray(np.broadcast_to(node[:, None], (count, arity, 4))))
    siblings, comm_c = np.concatenate(siblings, axis=1), leaf * np.uint64(3)
    comm_r = poseidon_batch(np.stack([comm_c, node], axis=1))
    proofs = []
    for i, number in enumerate(numbers.tolist()):
        index = post.challenges("window", "V1_1", size, randomness, number)
        each = lambda words: np.broadcast_to(words, (len(index), *words.shape))
        paths = Paths(each(node[i]), each(leaf[i]), each(siblings[i]), positions(index, size.arities))
        proofs.append(post.SectorProof(number, comm_r[i].tobytes(), comm_c[i], node[i], paths))
    return proofs


@pytest.mark.parametrize("kind, size, name", [
    ("winning", 2 << 10, "winning-2KiB"), ("winning", 32 << 30, "winning-32GiB"), ("window", 2 << 10, "window-2KiB"),
    ("window", 8 << 20, "window-8MiB"), pytest.param("window", 32 << 30, "window-32GiB", marks=pytest.mark.slow)])
def test_rows_are_the_references(kind, size, name):
    structure, want = circuits.structure(kind, size), expected(name)
    assert (structure.n_rows, structure.n_aux, structure.n_inputs) == (
        want["constraints"], want["aux"], want["inputs_with_one"])
    assert structure.terms() == want["nnz"] and digest.rows_sha256(structure) == want["rows_sha256"]


@pytest.mark.parametrize("size, constraints", [(64 << 30, 129_887_900), (4 << 10, None), (32 << 10, None)])
def test_counts_of_other_shapes(size, constraints):
    """Per sector 313 rows and, per challenge, bits, insert and hash of every level and two rows (formats.md E)."""
    shape = circuits.CIRCUITS["window"].shape(SIZES[size])
    rows = {8: 3 + 22 + 505, 4: 2 + 8 + 377, 2: 1 + 2 + 311}
    each = 313 + 10 * (sum(rows[a] for a in shape.arities) + 2)
    one = fallback.build(shape._replace(sectors=1))
    assert one.n_rows == each and constraints in (None, each * shape.sectors)


def test_the_witness_is_the_references():
    want, witness = expected("window-2KiB"), window_witness()
    a = circuits.synthesise("window", 2048, witness)
    assert [w.tobytes().hex() for w in a.inputs[1:]] == want["public_inputs"]
    assert digest.witness_sha256(a) == want["witness_sha256"] and columns.unsatisfied(a) == want["unsatisfied"] == 0


def test_winning_is_one_sector_of_many_challenges():
    want = expected("winning-2KiB")
    (entry,) = json.loads((FIXTURES / "posts" / "winning-vanilla.json").read_text())["sectors"]
    w = stacked([post.decode(base64.b64decode(entry["vanilla"]), SIZES[2048], 66)])
    rows = [np.repeat(array, 66, axis=0) for array in w[:3]]
    a = circuits.synthesise("winning", 2048, fallback.PartitionWitness(*rows, *(v.swapaxes(0, 1) for v in w[3:])))
    assert [x.tobytes().hex() for x in a.inputs[1:]] == want["public_inputs"]
    assert digest.witness_sha256(a) == want["witness_sha256"] and columns.unsatisfied(a) == 0


def test_parts_make_the_whole():
    shape = circuits.CIRCUITS["window"].shape(SIZES[4096])._replace(sectors=5)
    witness = stacked(uniform(SIZES[4096], 5))
    whole = fallback.synthesise(fallback.build(shape), shape, witness)
    inputs = fallback.inputs(shape, witness)
    assert (inputs == whole.inputs).all()
    for at_once in (1, 2, 5, 7):
        parts = list(fallback.in_parts(shape, witness, at_once))
        assert len(parts) == -(-5 // at_once)
        assert digest.witness_sha256_of(inputs, parts) == digest.witness_sha256(whole)
        assert sum(map(columns.unsatisfied, parts)) == 0


@pytest.mark.parametrize("name", fallback.PartitionWitness._fields)
def test_one_change_is_counted(name):
    witness = window_witness()
    array = getattr(witness, name).copy()
    array.reshape(-1)[0] ^= array.dtype.type(1)
    a = circuits.synthesise("window", 2048, witness._replace(**{name: array}))
    assert columns.unsatisfied(a) >= 1
    shape = circuits.CIRCUITS["window"].shape(SIZES[2048])
    assert (fallback.inputs(shape, witness._replace(**{name: array})) == a.inputs).all()


@pytest.mark.slow
def test_a_full_window_partition_of_uniform_sectors():
    """2349 sectors of 32 GiB: vanilla proofs through their bytes, checked; public inputs; every row satisfied."""
    size = SIZES[32 << 30]
    data = b"".join(post.encode(p, size) for p in uniform(size, size.window_sectors))
    proofs = post.read(data, size, "window")
    assert len(proofs) == 2349 and len(data) == 2349 * 24_960
    for proof in proofs[::100]:
        post.check(proof, size, post.challenges("window", "V1_1", size, bytes(32), proof.sector))
    inputs, parts = circuits.synthesise_parts("window", size.bytes, stacked(proofs))
    want = [[np.frombuffer(p.comm_r, "<u8"), *([i, 0, 0, 0] for i in post.challenges(
        "window", "V1_1", size, bytes(32), p.sector).tolist())] for p in proofs]
    assert (inputs[1:] == np.array(want, np.uint64).reshape(-1, 4)).all()
    rows = taken = 0
    for part in parts:
        assert columns.unsatisfied(part) == 0
        rows, own = rows + len(part.a.small) - len(part.inputs), len(part.inputs) - 1
        assert (part.inputs[1:] == inputs[1 + taken:1 + taken + own]).all()
        taken += own
    assert rows == 125_279_217 and taken == 25_839
