"""Scalars of the points against plain integers, and proofs from logarithms."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_cli.circuits.columns import evaluate_columns
from cuzk_cli.params.trapdoor import Trapdoor, combined_scalars, expected_proof, h_scalars, hash_to_scalar, lagrange_at
from cuzk_cli.protocol.fr import R_ORDER, root_of_unity, to_ints, to_words
from cuzk_cli.prove import circuits, snap
from cuzk_cli.prove.randomness import insecure_blinding

from .small import SmallCircuit

FIXTURES = Path(__file__).parents[2] / "fixtures"
T = Trapdoor.of_seed("cuzk")


def test_scalars_of_labels():
    proof = json.loads((FIXTURES / "proofs" / "proof-snap.json").read_text())["proofs"][0]
    assert hash_to_scalar("a r 0").to_bytes(32, "little").hex() == proof["r"]
    assert len(set(T)) == 5 and T.tau == hash_to_scalar("cuzk tau")


@pytest.mark.parametrize("log_m, rows", ((0, 1), (1, 1), (1, 2), (3, 8), (5, 19), (9, 512)))
def test_lagrange(log_m, rows):
    m, root = 1 << log_m, root_of_unity(log_m)
    z = T.vanishing(log_m)
    powers = [pow(root, i, R_ORDER) for i in range(rows)]
    expected = [z * pow(m, -1, R_ORDER) * w * pow(T.tau - w, -1, R_ORDER) % R_ORDER for w in powers]
    assert to_ints(lagrange_at(T.tau, log_m, rows)) == expected


def test_lagrange_interpolates():
    rng = np.random.default_rng(1)
    coefficients = [int(v) for v in rng.integers(0, 2**63, 64)]

    def value(x):
        return sum(c * pow(x, i, R_ORDER) for i, c in enumerate(coefficients)) % R_ORDER

    root = root_of_unity(6)
    weights = to_ints(lagrange_at(T.tau, 6, 64))
    assert sum(w * value(pow(root, i, R_ORDER)) for i, w in enumerate(weights)) % R_ORDER == value(T.tau)


def test_tau_in_the_domain():
    with pytest.raises(ValueError):
        T._replace(tau=root_of_unity(4)).vanishing(5)


@pytest.mark.parametrize("start", (0, 1, 1000))
def test_h(start):
    z = (pow(T.tau, 8, R_ORDER) - 1) * pow(T.delta, -1, R_ORDER)
    assert to_ints(h_scalars(T, 3, start, 5)) == [pow(T.tau, i, R_ORDER) * z % R_ORDER for i in range(start, start + 5)]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from((0, 1, R_ORDER - 1)) | st.integers(0, R_ORDER - 1)] * 3), min_size=1,
                max_size=8))
def test_combined(rows):
    columns = np.stack([to_words(column) for column in zip(*rows)])
    inverse = pow(T.gamma, -1, R_ORDER)
    assert to_ints(combined_scalars(T, columns, T.gamma)) == [
        (T.beta * u + T.alpha * v + w) * inverse % R_ORDER for u, v, w in rows]


def test_proof_of_the_reference():
    """bellperson's proof of a real sector, from its witness by scalar arithmetic."""
    sector = snap.Request(str(FIXTURES / "sectors" / "2KiB" / "s-t01000-1")).prepare()
    structure = circuits.structure("snap", 2048)
    assignment = circuits.synthesise("snap", 2048, sector.witness(0))
    columns = evaluate_columns(structure, lagrange_at(T.tau, structure.log_m, structure.total_rows))
    vector = json.loads((FIXTURES / "proofs" / "proof-snap.json").read_text())["proofs"][0]
    proof = expected_proof(T, structure.log_m, columns, assignment, *insecure_blinding("a", 0))
    assert proof.hex() == vector["proof"]


def test_logarithms_depend_on_everything():
    circuit = SmallCircuit(40, 3)
    columns = circuit.evaluate(lagrange_at(T.tau, circuit.log_m, circuit.total_rows))
    proofs = {expected_proof(T, circuit.log_m, columns, circuit.assignment, r, s) for r in (0, 1, 2) for s in (0, 5)}
    assert len(proofs) == 6 and {len(p) for p in proofs} == {192}
