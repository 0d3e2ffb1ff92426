"""The session around an engine whose device work is replaced: joined, locked, resumed, late and cancelled jobs."""
import os
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

from cuzk_cli.errors import Exit, fail
from cuzk_cli.kernels import runtime
from cuzk_cli.prove import joblock, journal
from cuzk_cli.prove.options import Options
from cuzk_cli.protocol.table import SIZES
from cuzk_cli.status import Tracker

from .pool import Pool
from .test_journal import holder

runtime.setup("cpu")

from cuzk_cli.prove import engine as engines, prover as provers  # noqa: E402  (import JAX, which is set up now)


class Request:
    """Of `partitions` partitions; proofs of the device name it."""

    def __init__(self, name="a", partitions=1, kind="snap", error=None):
        self.label, self.partitions, self.kind, self.error = name, list(range(partitions)), kind, error
        self.size, self.miner, self.number, self.warnings = SIZES[2048], 1000, 1, []

    def subject(self):
        return {"sector": self.label}

    def prepare(self):
        if self.error:
            raise self.error
        return self

    def witness(self, k):
        return self.label, k

    def public_inputs(self, k):
        return np.array([[ord(self.label[0]), k, 0, 0]], np.uint64)

    def facts(self):
        return {"kind": self.kind, **self.subject()}

    def identity(self):
        return repr((self.kind, self.label, self.partitions)).encode()


def proof_of(name, k):
    return bytes([ord(name[0]), k]) * 96


@pytest.fixture
def world(monkeypatch, tmp_path):
    """Provers with a device that answers when `gates[name, partition]` (made when asked for, open by default) is open."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = SimpleNamespace(gates={}, started=[], made=[], bad=[], lock=threading.Lock())

    def start(key, witness, *lanes):
        with found.lock:
            found.started.append(witness)
        return SimpleNamespace(witness=witness, timings={"h_ms": 1.0}, device_ms=1.0)

    def finish(running, r, s):
        gate = found.gates.get(running.witness)
        assert gate is None or gate.wait(20)
        wrong = running.witness in found.bad
        if wrong:
            found.bad.remove(running.witness)
        proof = bytes(192) if wrong else proof_of(*running.witness)
        return SimpleNamespace(to_bytes=lambda: proof)

    monkeypatch.setattr(engines, "SynthesisPool", Pool)
    monkeypatch.setattr(engines.Engine, "warm", lambda self, log_m=0: None)
    key = SimpleNamespace(proving=None, verifier=None, load_ms=1.0,
                          file=SimpleNamespace(size=1, verifying_key=SimpleNamespace(raw=b"key", path=None)))
    monkeypatch.setattr(engines.Engine, "key", lambda self, kind, size, located: key)
    monkeypatch.setattr(engines.groth16, "gpu_prove_start", start)
    monkeypatch.setattr(engines.groth16, "gpu_prove_finish", finish)
    verify = lambda key, inputs, proof: proof == proof_of(chr(int(inputs[0, 0])), int(inputs[0, 1]))
    for module in (engines, provers):
        monkeypatch.setattr(module.verifier, "verify_proof", verify)
    monkeypatch.setattr(provers.verifier, "verify_partitions", lambda key, inputs, proof: [
        verify(key, one, proof[192 * i:192 * i + 192]) for i, one in enumerate(inputs)])
    monkeypatch.setattr(provers.circuits, "structure", lambda kind, size: SimpleNamespace(log_m=3))
    monkeypatch.setattr(provers.Counts, "of", lambda structure: SimpleNamespace(params_bytes=1))
    monkeypatch.setattr(provers.memory, "require", lambda *given: None)
    monkeypatch.setattr(provers.memory, "ahead", lambda *given: 3)
    located = SimpleNamespace(warnings=[], params="p.params", require_params=lambda size: None, digest=None,
                              network_accepts=None, folder=SimpleNamespace(origin="--params"),
                              circuit=SimpleNamespace(vk_digest=None))
    monkeypatch.setattr(Options, "located", lambda self, kind, size: located)

    def prover(**options):
        found.said = []
        found.made.append(provers.Prover(Options(**options), Tracker(), found.said.append))
        return found.made[-1]

    found.prover = prover
    yield found
    for gate in found.gates.values():
        gate.set()
    for made in found.made:
        made.close()


def until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def result(ticket):
    return ticket.result.result(20)


def test_each_request_has_its_result(world):
    prover = world.prover()
    tickets = [prover.submit(r) for r in (Request("a", 3), Request("b", error=fail(Exit.INPUT, "open", "b")),
                                          Request("c", error=ZeroDivisionError("x")), Request("d"))]
    found = [result(t) for t in tickets]
    assert [r["exit"] for r in found] == [0, 10, 1, 0]
    assert found[0]["proof"] == b"".join(proof_of("a", k) for k in range(3)).hex() and found[0]["verified"]
    assert found[0]["job_id"].startswith("snap-1000-1-") and not found[0]["resumed_partitions"]
    until(lambda: not journal.kept() and not os.listdir(joblock.locks()))


def test_the_same_job_is_joined(world):
    world.gates["a", 0] = threading.Event()
    prover = world.prover()
    tickets = [prover.submit(Request("a")) for _ in range(3)]
    until(lambda: len(prover._jobs) == 1 and len(next(iter(prover._jobs.values()))[1]) >= 2 or len(world.started) > 1)
    world.gates["a", 0].set()
    found = [result(t) for t in tickets]
    assert len({r["proof"] for r in found}) == 1 and all(r["ok"] for r in found)
    assert world.started[:2].count(("a", 0)) <= 2       # the third may come after the end


def test_one_that_leaves_does_not_take_the_job_with_it(world):
    world.gates["a", 0] = threading.Event()
    prover = world.prover()
    tickets = [prover.submit(Request("a")) for _ in range(2)]
    until(lambda: prover._jobs and len(next(iter(prover._jobs.values()))[1]) == 2)
    assert tickets[0].cancel("no longer needed") and not tickets[0].cancel()
    world.gates["a", 0].set()
    assert result(tickets[0])["exit"] == 130 and result(tickets[1])["ok"] and world.started == [("a", 0)]


def test_a_job_of_another_process_is_refused_or_waited_for(world):
    request = Request("a")
    other = holder(provers.job_id(request))
    found = result(world.prover().submit(request))
    assert found["exit"] == 15 and str(other.pid) in found["errors"][0]["message"] and not world.started
    prover, existing = world.prover(wait=True), []
    ticket = prover.submit(request, existing=lambda prepared, verifies: existing.append(1))
    until(lambda: world.said)
    assert str(other.pid) in world.said[0] and not world.started
    other.communicate("\n")
    assert result(ticket)["ok"] and len(existing) == 2      # what the other made may be there now


def test_what_was_proved_before_a_stop_is_not_proved_again(world):
    world.gates["a", 2] = threading.Event()
    first = world.prover()
    ticket = first.submit(Request("a", 3))
    until(lambda: journal.kept() and journal.kept()[0].partitions == [0, 1])
    first.close()
    world.gates["a", 2].set()
    assert not ticket.result.done() or not result(ticket)["ok"]
    until(lambda: not os.listdir(joblock.locks()))

    entry = journal.kept()[0].folder / "1.json"
    entry.write_text(entry.read_text().replace(proof_of("a", 1).hex(), bytes(192).hex()))     # does not verify
    world.started.clear()
    found = result(world.prover().submit(Request("a", 3)))
    resumed = found["resumed_partitions"]           # 2 may have ended after the stop
    assert found["ok"] and resumed in ([0], [0, 2])
    assert sorted(world.started) == [("a", k) for k in range(3) if k not in resumed]
    assert found["proof"] == b"".join(proof_of("a", k) for k in range(3)).hex()
    until(lambda: not journal.kept())


def test_a_finished_job_is_never_answered_from_the_journal(world):
    prover = world.prover()
    for _ in range(2):
        assert not result(prover.submit(Request("a", 2)))["resumed_partitions"]
        until(lambda: not journal.kept())
    assert len(world.started) == 4


@pytest.mark.parametrize("options", [{"resume": False}, {"insecure_randomness": "s"}])
def test_no_resume(world, options):
    kept = journal.Journal(provers.job_id(Request("a", 2)), Request("a", 2).identity(), b"key")
    kept.keep(0, proof_of("a", 0))
    found = result(world.prover(**options).submit(Request("a", 2)))
    assert found["ok"] and not found["resumed_partitions"] and len(world.started) == 2
    until(lambda: not os.listdir(joblock.locks()))
    assert bool(journal.kept()) == ("insecure_randomness" in options)       # which neither reads nor writes it


@pytest.mark.parametrize("how", ["not ok", "raises"])
def test_a_result_that_was_not_delivered_leaves_the_journal(world, how):
    def deliver(found):
        if how == "raises":
            raise ZeroDivisionError("x")
        found.update(ok=False, exit=18)

    found = result(world.prover().submit(Request("a", 2), deliver=deliver))
    assert found["exit"] == (1 if how == "raises" else 18)
    until(lambda: not os.listdir(joblock.locks()))
    assert journal.kept()[0].partitions == [0, 1]
    again = result(world.prover().submit(Request("a", 2)))
    assert again["ok"] and again["resumed_partitions"] == [0, 1] and len(world.started) == 2


def test_a_deadline(world):
    world.gates["a", 0] = threading.Event()
    prover = world.prover()
    found = result(prover.submit(Request("a"), deadline=time.time() + 0.3))
    assert found["exit"] == 17 and not found["ok"]
    assert result(prover.submit(Request("b"), deadline=time.time() - 1))["exit"] == 17
    world.gates["a", 0].set()
    assert result(prover.submit(Request("c"), deadline=time.time() + 60))["ok"]


def test_cancel_before_and_after_the_start(world):
    world.gates.update({("a", k): threading.Event() for k in range(4)})
    prover = world.prover()
    running = prover.submit(Request("a", 4))
    until(lambda: len(world.started) == 2)
    late = prover.submit(Request("b", 2))
    assert late.cancel("x") and running.cancel("y")
    assert result(late)["exit"] == result(running)["exit"] == 130
    for gate in world.gates.values():
        gate.set()
    assert result(prover.submit(Request("c")))["ok"]
    assert {name for name, _ in world.started} == {"a", "c"} and len(world.started) == 3
    until(lambda: all(w["state"] == "idle" for w in prover.tracker.snapshot()["gpu_workers"]))


def test_a_job_that_has_just_been_cancelled_is_not_joined(world):
    prover = world.prover()
    first = prover.submit(Request("a"))
    assert result(first)["ok"]
    over = SimpleNamespace(done=Future(), proofs={})
    over.done.set_exception(fail(Exit.SIGINT, "cancelled"))
    name = first.job_id, "p.params"
    prover._jobs[name] = over, [first]          # as it stands until its tickets are told
    assert result(prover.submit(Request("a")))["ok"]
    until(lambda: name not in prover._jobs)


def test_requests_that_fail_early_are_failed_jobs_in_the_status(world):
    prover = world.prover()
    late = prover.submit(Request("c"), deadline=time.time() - 1)
    assert result(prover.submit(Request("b", error=fail(Exit.INPUT, "open", "b"))))["exit"] == 10
    assert result(late)["exit"] == 17
    shown = prover.tracker.snapshot()
    assert shown["counters"]["total_failed"] == 2 and shown["counters"]["jobs_running"] == 0
    jobs = {job["job_id"]: job for job in shown["pipelines"]}
    assert jobs["snap-b"]["error"] == "b: open" and jobs["snap-b"]["ok"] is False
    assert shown["last_error"]["code"] in ("INPUT", "DEADLINE")


def test_the_more_urgent_is_started_though_the_worker_is_full(world):
    world.gates.update({("a", k): threading.Event() for k in range(6)})
    prover = world.prover()
    slow = prover.submit(Request("a", 6))
    until(lambda: len(world.started) == 2)
    assert result(prover.submit(Request("w", kind="winning")))["ok"] and len(world.started) == 3
    assert result(prover.submit(Request("x", 2, kind="window")))["ok"] and len(world.started) == 5
    for gate in world.gates.values():
        gate.set()
    assert result(slow)["ok"]


def test_a_monolithic_job_is_one_assignment(world):
    world.gates["a", 1] = threading.Event()
    world.bad.append(("a", 0))
    prover = world.prover(monolithic=True)
    ticket = prover.submit(Request("a", 5))
    until(lambda: len(world.started) == 5)
    (worker,) = prover.tracker.snapshot()["gpu_workers"]
    assert worker["state"] == "proving" and worker["current_partition"] is None
    assert worker["current_partitions"] == list(range(5))
    world.gates["a", 1].set()
    found = result(ticket)
    assert found["ok"] and found["attempts"] == 2 and world.started[5:] == [("a", 0)]     # only what did not verify
    (job,) = prover.tracker.snapshot()["pipelines"]
    assert [p["state"] for p in job["partitions"]] == ["done"] * 5


def test_the_status_names_what_is_read_and_the_read_that_hangs(world, monkeypatch, tmp_path):
    gate = threading.Event()

    class Hanging(Request):
        def prepare(self):
            with provers.watch.reading("read", "/storage/s-t01000-1"):
                assert gate.wait(20)
            return self

    prover = world.prover()
    prover.tracker.observe(prover._shown, lambda: provers.watch.blocked(0.0))
    ticket = prover.submit(Hanging("a"))
    until(lambda: prover.tracker.snapshot()["blocked"])
    found = prover.tracker.snapshot()
    assert [entry["label"] for entry in found["loading"]] == ["a"]
    assert [(read["operation"], read["path"]) for read in found["blocked"]] == [("read", "/storage/s-t01000-1")]
    assert result(prover.submit(Request("b")))["ok"]        # another storage works on
    gate.set()
    assert result(ticket)["ok"]
    until(lambda: not prover.tracker.snapshot()["loading"])


def test_a_result_is_delivered_though_no_thread_can_be_started(world, monkeypatch):
    prover = world.prover()

    def refuse(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(prover._deliveries, "submit", refuse)
    assert result(prover.submit(Request("a", 2)))["ok"]
    until(lambda: not os.listdir(joblock.locks()))


@pytest.mark.parametrize("deadline", [time.time() + 1e12, 253402214400.0])
def test_a_deadline_that_no_clock_reaches(world, deadline):
    assert result(world.prover().submit(Request("a"), deadline=deadline))["ok"]
