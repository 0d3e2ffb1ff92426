"""The engine around a prover whose device work is replaced: retries, the exit codes of failures, epochs in any order."""
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from cuzk_cli.errors import CuzkError, Exit, fail
from cuzk_cli.kernels import runtime
from cuzk_cli.status import Tracker

from .pool import Pool

runtime.setup("cpu")

from cuzk_cli.prove import engine as engines  # noqa: E402  (imports JAX, which is set up now)


@pytest.fixture
def engine(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))     # of the log of faults
    monkeypatch.setattr(engines, "SynthesisPool", Pool)
    made = engines.Engine(Tracker(), 1)
    monkeypatch.setattr(made, "key", lambda *a: SimpleNamespace(proving=None, verifier=None))
    yield made
    made.close()


def job(partitions=1, seed=None, name="snap-1-1-x"):
    return engines.Job(name, "snap", 2048, list(range(partitions)), lambda k: k, lambda k: np.zeros((1, 4)), None, seed)


def device(monkeypatch, proofs):
    """`proofs(partition, attempt)` gives the bytes of a proof, or raises; good ones begin with 1."""
    attempts = {}

    def start(key, partition, *threads):
        attempts[partition] = attempts.get(partition, 0) + 1
        return SimpleNamespace(partition=partition, attempt=attempts[partition], timings={"h_ms": 1.0}, device_ms=1.0)

    def finish(running, r, s):
        return SimpleNamespace(to_bytes=lambda: proofs(running.partition, running.attempt))
    monkeypatch.setattr(engines.groth16, "gpu_prove_start", start)
    monkeypatch.setattr(engines.groth16, "gpu_prove_finish", finish)
    monkeypatch.setattr(engines.verifier, "verify_proof", lambda key, inputs, proof: proof[:1] == b"\1")
    return attempts


def states(engine):
    (pipeline,) = engine.tracker.snapshot()["pipelines"]
    return [p["state"] for p in pipeline["partitions"]], engine.tracker.snapshot()["gpu_workers"]


def test_all_partitions_are_proved(engine, monkeypatch):
    device(monkeypatch, lambda k, attempt: b"\1" + bytes([k]))
    done = engine.submit(job(5)).result(timeout=20)
    assert [done.proofs[k][1] for k in range(5)] == list(range(5)) and set(done.attempts.values()) == {1}
    found, workers = states(engine)
    assert found == ["done"] * 5 and all(w["state"] == "idle" for w in workers)


@pytest.mark.parametrize("bad", ["wrong", "off the curve"])
def test_a_proof_that_does_not_verify_is_made_once_more(engine, monkeypatch, bad):
    def proofs(k, attempt):
        if attempt == 1 and k == 1:
            if bad == "off the curve":
                raise ValueError("not on the curve")
            return b"\0"
        return b"\1"
    device(monkeypatch, proofs)
    done = engine.submit(job(3)).result(timeout=20)
    assert done.attempts == {0: 1, 1: 2, 2: 1} and states(engine)[0] == ["done"] * 3


def test_two_bad_proofs_fail_the_job_and_name_the_partition(engine, monkeypatch):
    attempts = device(monkeypatch, lambda k, attempt: b"\0" if k == 2 else b"\1")
    with pytest.raises(CuzkError) as raised:
        engine.submit(job(3)).result(timeout=20)
    assert raised.value.exit == Exit.VERIFICATION and "partition 2" in str(raised.value) and attempts[2] == 2
    found, workers = states(engine)
    assert found[2] == "failed" and all(w["state"] == "idle" for w in workers)


@pytest.mark.parametrize("error, code", [(fail(Exit.PARAMETERS, "check a[1]", "p.params"), Exit.PARAMETERS),
                                         (ZeroDivisionError("x"), Exit.INTERNAL)])
def test_errors_of_the_device_reach_the_caller(engine, monkeypatch, error, code):
    def proofs(k, attempt):
        raise error
    device(monkeypatch, proofs)
    with pytest.raises(CuzkError) as raised:
        engine.submit(job()).result(timeout=20)
    assert raised.value.exit == code and states(engine)[0] == ["failed"]
    device(monkeypatch, lambda k, attempt: b"\1")       # and the next job is not touched by it
    assert engine.submit(job(name="snap-1-2-y")).result(timeout=20).proofs


def test_a_worker_that_began_the_next_partition_is_not_idle_when_the_last_ends(engine, monkeypatch):
    gates = [threading.Event(), threading.Event()]

    def proofs(k, attempt):
        assert gates[k].wait(60)
        return b"\1"
    device(monkeypatch, proofs)
    future = engine.submit(job(2))
    for _ in range(2000):
        worker = engine.tracker.snapshot()["gpu_workers"][0]
        if len(worker["open_epochs"]) == 2:
            break
        threading.Event().wait(0.01)
    assert worker["state"] == "proving" and worker["current_partition"] == 1
    gates[0].set()
    for _ in range(2000):
        worker = engine.tracker.snapshot()["gpu_workers"][0]
        if len(worker["open_epochs"]) == 1:
            break
        threading.Event().wait(0.01)
    assert worker["state"] == "proving" and worker["current_partition"] == 1
    gates[1].set()
    future.result(timeout=60)


@pytest.mark.parametrize("where", ["start", "finish"])
def test_faults_fail_the_job_wherever_they_are_and_leave_the_worker_at_work(engine, monkeypatch, where, tmp_path):
    def fault(*arguments):
        raise ZeroDivisionError("x")

    device(monkeypatch, lambda k, attempt: b"\1")
    with monkeypatch.context() as broken:
        broken.setattr(engines.groth16, f"gpu_prove_{where}", fault)
        for i in range(2 * engines.OPEN):       # no slot is lost
            with pytest.raises(CuzkError, match="ZeroDivisionError: x") as raised:
                engine.submit(job(name=f"snap-1-{i}-x")).result(timeout=20)
            assert raised.value.exit == Exit.INTERNAL
    assert "Traceback" in (tmp_path / "cuzk" / "error.log").read_text()
    assert engine.submit(job(name="snap-1-9-x")).result(timeout=20).proofs
    assert all(w["state"] == "idle" for w in engine.tracker.snapshot()["gpu_workers"])


@pytest.mark.parametrize("where", ["start", "finish"])
def test_a_stop_in_the_middle_is_no_fault(engine, monkeypatch, where, tmp_path):
    """What is refused after `close` ends quietly: no thread dies of it, nothing is logged."""
    reached, died = threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", died.append)
    device(monkeypatch, lambda k, attempt: b"\1")

    def wait_for_the_end(*arguments):
        reached.set()
        while not engine.closed:
            threading.Event().wait(0.01)
        engine.device.submit(lambda: None)

    monkeypatch.setattr(engines.groth16, f"gpu_prove_{where}", wait_for_the_end)
    future = engine.submit(job())
    assert reached.wait(20)
    engine.close()
    with pytest.raises(CuzkError, match="stopped"):
        future.result(timeout=60)
    assert not died and not (tmp_path / "cuzk").exists()
