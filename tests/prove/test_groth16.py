"""The prover on a small circuit: its bytes are those that the trapdoor predicts."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.kernels import runtime
from cuzk_cli.params.format import Counts, ParameterFile
from cuzk_cli.params.generate import generate
from cuzk_cli.params.trapdoor import Trapdoor, expected_proof, lagrange_at
from cuzk_cli.protocol.fr import R_ORDER
from cuzk_cli.prove.verifier import prepare, verify_proof

from ..params.small import SLOW_FIXED_BASE, SmallCircuit, evaluate

CIRCUIT = SmallCircuit(60, 3)
TRAPDOOR = Trapdoor.of_seed("t")


@pytest.fixture(scope="module")
def prover():
    """gpu_prove_start and gpu_prove_finish in one call, on a thread of its own."""
    runtime.setup()
    from cuzk_cli.prove import groth16

    with ThreadPoolExecutor(1) as device:
        def prove(path, r, s):
            with ParameterFile(path, Counts.of(CIRCUIT)) as file:
                key = groth16.ProvingKey.of(CIRCUIT, file)
                running = groth16.gpu_prove_start(key, CIRCUIT.assignment, device)
                return groth16.gpu_prove_finish(running, r, s).to_bytes(), file.verifying_key
        yield prove


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return generate(CIRCUIT, "v28-small", tmp_path / "p", "t", SLOW_FIXED_BASE, evaluate=evaluate).params


def test_predicted_bytes(prover, params):
    columns = CIRCUIT.evaluate(lagrange_at(TRAPDOOR.tau, CIRCUIT.log_m, CIRCUIT.total_rows))
    for r, s in ((0, 0), (1, R_ORDER - 1), (R_ORDER // 3, 12345)):
        proof, key = prover(params, r, s)
        assert proof == expected_proof(TRAPDOOR, CIRCUIT.log_m, columns, CIRCUIT.assignment, r, s)
        assert verify_proof(prepare(key), CIRCUIT.assignment.inputs[1:], proof)


@pytest.mark.parametrize("vector, index", (("h", 17), ("l", 40), ("a", 1), ("b_g1", 0), ("b_g2", 0)))
def test_a_point_off_the_curve_is_named(prover, params, vector, index):
    with ParameterFile(params) as file:
        offset = file.offsets[vector] + index * (192 if vector == "b_g2" else 96)
    data = bytearray(params.read_bytes())
    data[offset + 95] ^= 1
    params.write_bytes(data)
    with pytest.raises(CuzkError, match=rf"{vector}\[{index}\] at offset {offset}") as caught:
        prover(params, 1, 2)
    assert caught.value.exit == Exit.PARAMETERS
