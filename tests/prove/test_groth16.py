"""The prover on a small circuit: its bytes are those that the trapdoor predicts."""
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

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


def test_the_witness_is_multiplied_beside_the_transforms(params):
    """Work of two threads: the bytes are the same, and time in which both work counts once."""
    runtime.setup()
    from cuzk_cli.prove import groth16

    with ParameterFile(params, Counts.of(CIRCUIT)) as file, ThreadPoolExecutor(1, "one") as one, \
            ThreadPoolExecutor(1, "two") as two:
        key, ran = groth16.ProvingKey.of(CIRCUIT, file), {}

        def noting(thread):
            def submit(function):
                def run():
                    ran.setdefault(threading.current_thread().name, []).append(thread)
                    return function()
                return thread.submit(run)
            return SimpleNamespace(submit=submit)

        alone = groth16.gpu_prove_finish(groth16.gpu_prove_start(key, CIRCUIT.assignment, one), 1, 2)
        running = groth16.gpu_prove_start(key, CIRCUIT.assignment, noting(one), noting(two))
        assert groth16.gpu_prove_finish(running, 1, 2).to_bytes() == alone.to_bytes()
    assert {name: len(tasks) for name, tasks in ran.items()} == {"one_0": 2, "two_0": 4}
    assert len(running.spans) == len(running.timings) == 6
    assert running.device_ms <= sum(running.timings.values()) + 1e-6


def test_time_of_a_proof_is_that_in_which_a_stage_ran():
    runtime.setup()
    from cuzk_cli.prove import groth16

    def ms(*spans):
        return groth16.Running(None, {}, {}, list(spans)).device_ms

    assert ms() == 0
    assert ms((2, 3), (0, 1)) == 2000
    assert ms((0, 4), (1, 2)) == ms((1, 2), (0, 3), (2, 4)) == ms((0, 2), (2, 4)) == 4000


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
