"""The engine around a prover whose device work is replaced: retries, the exit codes of failures, epochs in any order."""
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from cuzk_cli.errors import CuzkError, Exit, fail
from cuzk_cli.kernels import runtime
from cuzk_cli.status import Tracker

from .pool import Pool

runtime.setup("cpu")

import jax  # noqa: E402  (set up now)

from cuzk_cli.prove import engine as engines  # noqa: E402
from cuzk_cli.prove.gpulock import GpuLocks  # noqa: E402
from cuzk_cli.prove.joblock import locks  # noqa: E402


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


def device(monkeypatch, proofs, frugal=lambda value: None):
    """`proofs(partition, attempt)` gives the bytes of a proof, or raises; good ones begin with 1."""
    attempts = {}

    def start(key, partition, thread, beside, saving):
        attempts[partition] = attempts.get(partition, 0) + 1
        frugal(saving)
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


def broken(text):
    return jax.errors.JaxRuntimeError(text)


@pytest.mark.parametrize("policy, times, attempts", [("retry", 1, 2), ("retry", 2, 2), ("fail", 1, 1), ("cpu", 2, 3)])
def test_a_device_error_is_answered_as_the_user_wants(engine, monkeypatch, policy, times, attempts):
    """A GPU that fails so many times: `retry` tries it twice, `cpu` then goes there, with a warning."""
    where, warned = ["gpu"], []
    monkeypatch.setattr(engines, "platform", lambda: where[0])
    monkeypatch.setattr(engines, "turn_to", lambda name: where.__setitem__(0, name))
    monkeypatch.setattr(engine, "_warn", warned.append)

    def proofs(k, attempt):
        if where[0] == "gpu" and attempt <= times:
            raise broken("INTERNAL: illegal address")
        return b"\1"

    tried = device(monkeypatch, proofs)
    asked = job()
    asked.on_device_error = policy
    future = engine.submit(asked)
    if attempts > times:
        assert future.result(timeout=60).proofs
    else:
        with pytest.raises(CuzkError, match="partition 0 of snap-1-1-x.*illegal address") as raised:
            future.result(timeout=60)
        assert raised.value.exit == Exit.DEVICE
    assert tried[0] == attempts and where == (["cpu"] if policy == "cpu" else ["gpu"])
    assert [text.endswith("proving goes on, slower, on the CPU") for text in warned] == [True] * (policy == "cpu")
    assert all(w["state"] == "idle" for w in engine.tracker.snapshot()["gpu_workers"])


def test_partitions_in_flight_when_a_device_is_given_up_are_proved_on_the_cpu(engine, monkeypatch):
    where, both = ["gpu"], threading.Barrier(2)
    monkeypatch.setattr(engines, "platform", lambda: where[0])
    monkeypatch.setattr(engines, "turn_to", lambda name: where.__setitem__(0, name))

    def proofs(k, attempt):
        if attempt == 2:
            both.wait(60)       # both fail twice before either goes on
        if attempt <= 2:
            raise broken("INTERNAL: illegal address")
        return b"\1"

    tried = device(monkeypatch, proofs)
    asked = job(2)
    asked.on_device_error = "cpu"
    assert len(engine.submit(asked).result(timeout=60).proofs) == 2 and tried == {0: 3, 1: 3}


@pytest.mark.parametrize("times", [1, 2])
def test_out_of_device_memory_smaller_chunks_are_taken_once(engine, monkeypatch, times):
    saving = []

    def proofs(k, attempt):
        if attempt <= times:
            raise broken("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes")
        return b"\1"

    device(monkeypatch, proofs, saving.append)
    future = engine.submit(job())
    if times == 1:
        assert future.result(timeout=60).proofs
    else:
        with pytest.raises(CuzkError, match="the device has not enough memory") as raised:
            future.result(timeout=60)
        assert raised.value.exit == Exit.RESOURCES
    assert saving == [False, True]


def test_a_gpu_of_another_process_is_waited_for_and_named(engine, monkeypatch):
    """No epoch begins before the GPU is ours."""
    device(monkeypatch, lambda k, attempt: b"\1")
    theirs, warned = GpuLocks(["GPU-x"]), []
    monkeypatch.setattr(engine, "gpus", GpuLocks(["GPU-x"]))
    monkeypatch.setattr(engine, "_warn", warned.append)
    assert theirs.hold()
    future = engine.submit(job())
    for _ in range(6000):
        (pipeline,) = engine.tracker.snapshot()["pipelines"]
        if pipeline["waiting_for"]:
            break
        threading.Event().wait(0.01)
    owner = f"process {os.getpid()}"
    assert pipeline["waiting_for"] == {"kind": "device", "need": "GPU-x", "have": owner}
    assert states(engine)[1][0]["state"] == "idle" and owner in warned[0]
    theirs.let_go()
    assert future.result(timeout=60).proofs
    assert states(engine)[0] == ["done"] and not list(locks().iterdir())
    monkeypatch.setattr(engine, "gpus", GpuLocks(["GPU-x"], patience=0))
    assert theirs.hold()
    with pytest.raises(CuzkError) as raised:
        engine.submit(job(name="snap-1-2-x")).result(timeout=60)
    assert raised.value.exit == Exit.DEVICE and owner in str(raised.value)
    theirs.let_go()
