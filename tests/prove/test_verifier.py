"""Verification and proof encodings against proofs that bellperson made."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from py_arkworks_bls12381 import G1Point, G2Point

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.params.format import read_verifying_key
from cuzk_cli.prove.encoding import PROOF_BYTES, decode_proof, g1_affine, g1_point, g2_affine, g2_point, scalar
from cuzk_cli.prove.randomness import insecure_blinding
from cuzk_cli.prove.verifier import prepare, verify_batch, verify_partitions, verify_proof
from cuzk_cli.protocol.fr import R_ORDER, to_words

FIXTURES = Path(__file__).parents[2] / "fixtures"
KINDS = ("snap", "window", "winning", "porep")
Q = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB


def load(kind):
    """(prepared key, [public inputs], [proof], vector) of one kind."""
    vector = json.loads((FIXTURES / "proofs" / f"proof-{kind}.json").read_text())
    key = prepare(read_verifying_key(FIXTURES / "params" / vector["params"].replace(".params", ".vk")))
    inputs = [np.frombuffer(bytes.fromhex("".join(p["public_inputs"])), "<u8").reshape(-1, 4) for p in vector["proofs"]]
    return key, inputs, [bytes.fromhex(p["proof"]) for p in vector["proofs"]], vector


@pytest.fixture(scope="module")
def snap():
    key, inputs, proofs, _ = load("snap")
    return key, inputs[0], proofs[0]


@pytest.mark.parametrize("kind", KINDS)
def test_proofs_of_the_reference_verify(kind):
    key, inputs, proofs, vector = load(kind)
    assert verify_partitions(key, inputs, b"".join(proofs)) == [True] * len(proofs)
    for values, proof, entry in zip(inputs, proofs, vector["proofs"]):
        assert decode_proof(proof).to_bytes() == proof
        r, s = insecure_blinding("a", entry["partition"])
        assert (r, s) == tuple(int.from_bytes(bytes.fromhex(entry[name]), "little") for name in "rs")
        for i in range(0, len(values), max(1, len(values) // 3)):
            wrong = values.copy()
            wrong[i, 0] ^= np.uint64(1)
            assert not verify_proof(key, wrong, proof)


def test_partitions_are_told_apart(snap):
    key, inputs, proof = snap
    broken = bytearray(proof)
    broken[100] ^= 1
    assert verify_partitions(key, [inputs] * 3, proof + broken + proof) == [True, False, True]
    with pytest.raises(ValueError):
        verify_partitions(key, [inputs] * 2, proof)


@pytest.mark.parametrize("count", (0, 1, 2, 5))
def test_a_batch_holds_only_as_a_whole(snap, count):
    key, inputs, proof = snap
    assert verify_batch(key, [inputs] * count, [proof] * count)
    for bad in range(count):
        wrong, others = inputs.copy(), [bytearray(proof) for _ in range(count)]
        wrong[2, 0] ^= np.uint64(1)
        assert not verify_batch(key, [wrong if k == bad else inputs for k in range(count)], [proof] * count)
        others[bad][150] ^= 1
        assert not verify_batch(key, [inputs] * count, others)
        with pytest.raises(CuzkError):
            verify_batch(key, [inputs[:-1] if k == bad else inputs for k in range(count)], [proof] * count)


def test_faults_of_a_batch_do_not_cancel(snap):
    """A + D and A' - D, C + D and C' - D: sums without weights would hold."""
    key, inputs, proof = snap
    good, shift = decode_proof(proof), G1Point() * scalar(77)
    for name in "ac":
        pair = [good._replace(**{name: getattr(good, name) + change}).to_bytes() for change in (shift, -shift)]
        assert not verify_batch(key, [inputs] * 2, pair)
        assert verify_partitions(key, [inputs] * 2, b"".join(pair)) == [False, False]


def test_every_byte_counts(snap):
    key, inputs, proof = snap
    for position in range(PROOF_BYTES):
        broken = bytearray(proof)
        broken[position] ^= 1 << (position % 8)
        assert verify_proof(key, inputs, broken) is False


@pytest.mark.parametrize("length", (0, 1, 191, 193, 384))
def test_wrong_lengths(snap, length):
    key, inputs, proof = snap
    assert verify_proof(key, inputs, (proof * 2)[:length]) is False


def test_points_that_are_none(snap):
    key, inputs, proof = snap
    infinity = {48: b"\xc0" + bytes(47), 96: b"\xc0" + bytes(95)}
    for start, end in ((0, 48), (48, 144), (144, 192)):
        flag = proof[start] & 0x20
        bad = [infinity[end - start], bytes(end - start), bytes([proof[start] & 0x7F]) + proof[start + 1:end],
               bytes([0x80 | flag | Q.to_bytes(48, "big")[0]]) + Q.to_bytes(48, "big")[1:] + bytes(end - start - 48)]
        for part in bad:
            assert verify_proof(key, inputs, proof[:start] + part + proof[end:]) is False


def test_points_outside_the_subgroup(snap):
    key, inputs, proof = snap
    for x in range(1, 20):      # small x: on the curve half the time, in the subgroup practically never
        data = bytes([0x80]) + bytes(46) + bytes([x])
        try:
            point = G1Point.from_compressed_bytes_unchecked(data)
        except ValueError:
            continue
        assert not point.is_in_subgroup()
        with pytest.raises(ValueError, match="C is not a point of the group"):
            decode_proof(proof[:144] + data)
        assert verify_proof(key, inputs, proof[:144] + data) is False
    data = next(d for d in (bytes([0x80]) + bytes(94) + bytes([x]) for x in range(1, 40)) if _on_g2(d))
    assert verify_proof(key, inputs, proof[:48] + data + proof[144:]) is False


def _on_g2(data):
    try:
        return not G2Point.from_compressed_bytes_unchecked(data).is_in_subgroup()
    except ValueError:
        return False


def test_statements_that_are_none(snap):
    key, inputs, proof = snap
    with pytest.raises(CuzkError) as caught:
        verify_proof(key, inputs[:-1], proof)
    assert caught.value.exit == Exit.PARAMETERS and "4, actual 5" in str(caught.value)
    for i in range(len(inputs)):
        value = int.from_bytes(inputs[i].tobytes(), "little") + R_ORDER     # the same residue, written otherwise
        aliased = inputs.copy()
        aliased[i] = np.frombuffer(value.to_bytes(32, "little"), "<u8")
        assert verify_proof(key, aliased, proof) is False


def test_another_circuits_key(snap):
    _, inputs, proof = snap
    other, *_ = load("window")
    with pytest.raises(CuzkError):
        verify_proof(other, inputs, proof)
    assert not verify_proof(other, to_words(range(22)), proof)


def test_points_as_integers():
    for k in (1, 2, 12345, R_ORDER - 1):
        p, p2 = G1Point() * scalar(k), G2Point() * scalar(k)
        assert g1_point(g1_affine(p)) == p and g2_point(g2_affine(p2)) == p2
    x, y = g1_affine(G1Point())
    assert x == 0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB
    assert (y * y - x**3 - 4) % Q == 0
    assert g1_affine(G1Point.identity()) is None and g1_point(None) == G1Point.identity()
    assert g2_affine(G2Point.identity()) is None and g2_point(None) == G2Point.identity()
    for affine in ((x, y + 1), (x + Q, y)):
        with pytest.raises(ValueError):
            g1_point(affine)
