"""curio's calls, by a client that does not know our .proto file."""
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from cuzk_cli.daemon import jobs, service
from cuzk_cli.prove.urgency import Urgency

from .conftest import post, snap
from .fake import SIZE, proof_of, running
from .curio import Curio


def refused(call, **fields) -> tuple[str, str]:
    """(code, details)."""
    with pytest.raises(grpc.RpcError) as found:
        call(**fields)
    return found.value.code().name, found.value.details()


def test_prove(curio, daemon):
    found = curio.Prove(submit=snap(request_id="snap-1000-1")).result
    assert found.status == 1 and found.job_id == "snap-1000-1" and not found.error_message
    (request,) = daemon.prover.requests
    assert found.proof == proof_of(request)
    assert (found.total_ms, found.synthesis_ms, found.srs_load_ms) == (12, 3, 0)
    assert request.kind == "snap" and request.sector_id == (1000, 1) and request.sector_size == "2KiB"
    assert daemon.prover.given == [(Urgency.NORMAL, None)]


def test_prove_a_replica(curio, daemon):
    found = curio.Prove(submit=dict(request_id="porep-1000-1", proof_kind=1, sector_size=2048, registered_proof=5,
                                    vanilla_proof=b"{}", sector_number=1, miner_id=1000)).result
    assert found.status == 1 and daemon.prover.requests[0].kind == "porep" and daemon.prover.given == [(None, None)]


@pytest.mark.parametrize("kind, urgency", [("window", Urgency.HIGH), ("winning", Urgency.CRITICAL)])
def test_prove_a_post(curio, daemon, kind, urgency):
    id = "wdpost-1000-0-[66 84 251 26 95 237 193 85]"       # as curio names it
    assert curio.Prove(submit=post(kind, request_id=id)).result.status == 1
    assert daemon.prover.requests[0].kind == kind and daemon.prover.given == [(urgency, None)]


def test_submit_and_await(curio, held):
    first = curio.SubmitProof(**snap(request_id="a"))
    second = curio.SubmitProof(**snap(request_id="b", sector_number=2))
    assert (first.job_id, first.queue_position, second.job_id, second.queue_position) == ("a", 0, "b", 1)
    waiting = curio.AwaitProof(job_id="a", timeout_ms=50)
    assert waiting.status == 4 and not waiting.proof            # TIMEOUT
    held.going.set()
    assert curio.AwaitProof(job_id="a").status == curio.AwaitProof(job_id="b", timeout_ms=60_000).status == 1
    assert curio.AwaitProof(job_id="a").status == 1             # and late, again
    assert curio.AwaitProof(job_id=f"snap-x-x-{0:012}").job_id == "a"       # by the id that the status shows
    assert refused(curio.AwaitProof, job_id="c")[0] == "NOT_FOUND"


def test_a_job_without_an_id_gets_one(curio):
    ids = {curio.SubmitProof(**snap(sector_number=n)).job_id for n in (1, 2)}
    assert len(ids) == 2 and all(curio.AwaitProof(job_id=id).status == 1 for id in ids)


def test_a_failure_says_why(curio, daemon):
    daemon.prover.fails = lambda request: "a folder"
    found = curio.Prove(submit=snap(request_id="a")).result
    assert found.status == 2 and not found.proof
    assert found.error_message == "/sealed: open: expected a file, actual a folder"


# ---- the same twice
def test_the_same_id_joins(curio, daemon, held):
    assert curio.SubmitProof(**snap(request_id="a")).job_id == "a"
    assert curio.SubmitProof(**snap(request_id="a")).job_id == "a"
    assert curio.SubmitProof(**snap(request_id="a", priority=3)).job_id == "a"      # no part of what is asked for
    waiting = curio.future("Prove", submit=curio.messages.SubmitProofRequest(**snap(request_id="a")))
    held.going.set()
    assert waiting.result().result.status == 1
    assert curio.Prove(submit=snap(request_id="a")).result.status == 1              # and when it is done
    assert len(daemon.prover.requests) == 1


def test_the_same_id_for_something_else_is_refused(curio, held):
    curio.SubmitProof(**snap(request_id="a"))
    for other in (dict(sector_number=2), dict(miner_id=1), dict(vanilla_proofs=[b"x"])):
        code, text = refused(curio.SubmitProof, **snap(request_id="a", **other))
        assert code == "ALREADY_EXISTS" and "'a' is of another request" in text
    assert refused(curio.Prove, submit=curio.messages.SubmitProofRequest(**snap(request_id="a", sector_number=2)))[0] \
        == "ALREADY_EXISTS"
    held.going.set()
    assert curio.AwaitProof(job_id="a").status == 1
    # curio names a sector's second attempt, with another seed, like its first
    assert curio.Prove(submit=snap(request_id="a", sector_number=2)).result.status == 1
    assert len(held.requests) == 2


def test_a_failed_job_is_tried_again(curio, daemon):
    daemon.prover.fails = lambda request: "none"
    assert curio.Prove(submit=snap(request_id="a")).result.status == 2
    daemon.prover.fails = lambda request: None
    assert curio.Prove(submit=snap(request_id="a")).result.status == 1
    assert len(daemon.prover.requests) == 2


# ---- cancelling
def test_cancel(curio, held):
    curio.SubmitProof(**snap(request_id="a"))
    until(lambda: curio.GetStatus().gpus[0].current_job_id == "a")
    waiting = curio.future("AwaitProof", job_id="a")
    assert curio.CancelProof(job_id="a").was_running is True
    assert waiting.result().status == 3 and waiting.result().error_message == "cancelled by a client"
    assert held.cancelled == 1
    assert curio.CancelProof(job_id="a").was_running is False
    assert refused(curio.CancelProof, job_id="b")[0] == "NOT_FOUND"
    curio.SubmitProof(**snap(request_id="a"))                   # it may be asked for again
    held.going.set()
    assert curio.AwaitProof(job_id="a").status == 1
    assert curio.CancelProof(job_id="a").was_running is False


def test_a_client_that_goes_away_leaves_its_job_for_a_while(curio, held, monkeypatch):
    with pytest.raises(grpc.RpcError):
        curio.Prove(timeout=0.2, submit=snap(request_id="a"))
    assert held.cancelled == 0                                  # it tries again, and finds it
    monkeypatch.setattr(jobs, "ORPHAN_SECONDS", 0.1)
    with pytest.raises(grpc.RpcError):
        curio.Prove(timeout=0.2, submit=snap(request_id="a"))
    until(lambda: held.cancelled == 1)
    found = curio.AwaitProof(job_id="a")
    assert found.status == 3 and "nobody has waited" in found.error_message
    curio.SubmitProof(**snap(request_id="b"))                   # what was submitted goes on in any case
    assert curio.AwaitProof(job_id="b", timeout_ms=400).status == 4
    assert len(held.requests) == 2


# ---- what is going on
def test_status(curio, daemon, held):
    held.keys["snap", SIZE] = 5
    for n, id in enumerate("abc"):
        curio.SubmitProof(**snap(request_id=id, sector_number=n))
    until(lambda: held.tracker.snapshot()["counters"]["epochs_open"] == 2)
    found = curio.GetStatus()
    queues = {q.proof_kind: (q.pending, q.in_progress) for q in found.queues}
    assert queues == {"porep-c2": (0, 0), "snap-update": (1, 2), "window-post": (0, 0), "winning-post": (0, 0)}
    assert [(g.ordinal, g.name, g.vram_total_bytes, g.vram_free_bytes) for g in found.gpus] == [(0, "", 0, 0)] * 2
    assert found.gpus[0].current_job_id in {"a", "b"} and found.gpus[0].current_proof_kind == "snap-update"
    assert (found.gpus[1].current_job_id, found.gpus[1].current_proof_kind) == ("", "")
    assert [(s.circuit_id, s.tier, s.size_bytes, s.ref_count) for s in found.loaded_srs] == [("snap-2k", 0, 5, 3)]
    assert found.pinned_memory_bytes == 5 and found.total_proofs_completed == 0
    held.going.set()
    for id in "abc":
        curio.AwaitProof(job_id=id)
    found = curio.GetStatus()
    assert (found.total_proofs_completed, found.total_proofs_failed) == (3, 0)
    assert not any(q.pending or q.in_progress for q in found.queues)
    assert "cuzk_proofs_completed_total 3\n" in curio.GetMetrics().prometheus_text


def test_devices_and_memory_are_asked(classes):
    devices = lambda: {0: service.Device("NVIDIA H200", 100, 40)}
    with running(devices=devices, memory_limit=lambda: 77) as found, found.channel() as channel:
        status = Curio(channel, classes).GetStatus()
        assert [(g.name, g.vram_total_bytes, g.vram_free_bytes) for g in status.gpus][0] == ("NVIDIA H200", 100, 40)
        assert status.pinned_memory_limit_bytes == 77


def test_parameters(curio):
    found = curio.PreloadSRS(circuit_id="snap-32g")
    assert (found.already_loaded, found.load_time_ms) == (False, 17)
    assert curio.PreloadSRS(circuit_id="snap-32g").already_loaded
    assert [s.circuit_id for s in curio.GetStatus().loaded_srs] == ["snap-32g"]
    gone = curio.EvictSRS(circuit_id="snap-32g")
    assert (gone.was_loaded, gone.freed_bytes) == (True, 1000)
    assert not curio.EvictSRS(circuit_id="snap-32g").was_loaded
    code, text = refused(curio.PreloadSRS, circuit_id="porep-32g")
    assert code == "FAILED_PRECONDITION" and "find parameters" in text
    for bad in ("", "snap", "snap-3g", "porp-32g", "snap-32g-1", "x" * 5000):
        assert refused(curio.PreloadSRS, circuit_id=bad)[0] == refused(curio.EvictSRS, circuit_id=bad)[0] \
            == "INVALID_ARGUMENT"


def test_parameters_in_use_stay(curio, held):
    curio.PreloadSRS(circuit_id="snap-2k")
    curio.SubmitProof(**snap(request_id="a"))
    assert refused(curio.EvictSRS, circuit_id="snap-2k")[0] == "FAILED_PRECONDITION"


# ---- what is refused
@pytest.mark.parametrize("change, said", [
    (dict(proof_kind=0), "proof_kind: read the request: expected"),
    (dict(proof_kind=9), "actual 9"),
    (dict(priority=5), "priority"),
    (dict(sector_size=2049), "sector_size"),
    (dict(sector_size=0), "registered_proof is 0"),
    (dict(registered_proof=3), "registered_proof: read the request: expected one of 2KiB"),
    (dict(registered_proof=99), "registered_proof"),
    (dict(comm_r_old=b"x"), "comm_r_old: read the request: expected 32 bytes, actual 1 bytes"),
    (dict(comm_r_old=b"\xff" * 32), "comm_r_old"),
    (dict(comm_d_new=b"\x01" * 39), "comm_d_new"),
    (dict(vanilla_proofs=[]), "vanilla_proofs: read the request: expected 1 partitions, actual 0"),
    (dict(vanilla_proofs=[b"a", b"b"]), "vanilla_proofs"),
    (dict(request_id="x" * 513), "request_id"),
    (dict(request_id="a\nb"), "request_id"),
])
def test_a_bad_request(curio, daemon, change, said):
    code, text = refused(curio.SubmitProof, **snap(**change))
    assert code == "INVALID_ARGUMENT" and said in text and "\n" not in text
    assert not daemon.prover.requests


def test_all_problems_at_once(curio):
    _, text = refused(curio.SubmitProof, **snap(comm_r_old=b"", comm_r_new=b"", sector_size=1))
    assert all(name in text for name in ("comm_r_old", "comm_r_new", "sector_size"))


def test_too_much_at_a_time_is_refused(curio, held, monkeypatch):
    monkeypatch.setattr(jobs, "UNFINISHED", 2)
    for n in (1, 2):
        curio.SubmitProof(**snap(request_id=str(n), sector_number=n))
    code, text = refused(curio.SubmitProof, **snap(request_id="3", sector_number=3))
    assert code == "RESOURCE_EXHAUSTED" and "2 jobs" in text
    monkeypatch.setattr(jobs, "UNFINISHED", 9)
    monkeypatch.setattr(jobs, "HELD", 1000)
    assert refused(curio.SubmitProof, **snap(request_id="3", sector_number=3))[0] == "RESOURCE_EXHAUSTED"
    assert curio.SubmitProof(**snap(request_id="1", sector_number=1)).job_id == "1"
    held.going.set()
    assert curio.AwaitProof(job_id="2").status == 1
    monkeypatch.setattr(jobs, "HELD", 1 << 30)
    assert curio.Prove(submit=snap(request_id="3", sector_number=3)).result.status == 1


def test_what_is_remembered_is_bounded(curio, monkeypatch):
    monkeypatch.setattr(jobs, "KEPT", 3)
    for n in range(6):
        assert curio.Prove(submit=snap(request_id=str(n), sector_number=n)).result.status == 1
    assert refused(curio.AwaitProof, job_id="2")[0] == "NOT_FOUND"
    assert [curio.AwaitProof(job_id=id).status for id in "345"] == [1, 1, 1]


def test_input_is_forgotten_with_the_result(curio, daemon):
    tickets = []
    submit = daemon.prover.submit

    def watched(*given, **more):
        ticket = submit(*given, **more)
        tickets.append(weakref.ref(ticket))
        return ticket

    daemon.prover.submit = watched
    for n in range(3):
        assert curio.Prove(submit=snap(request_id=str(n), sector_number=n)).result.status == 1
    curio.SubmitProof(**snap(request_id="x", sector_number=9))
    assert curio.AwaitProof(job_id="x").status == 1
    gc.collect()
    assert [ticket() for ticket in tickets[:3]] == [None] * 3


# ---- many
def test_a_thousand_jobs(curio, daemon):
    """None is lost, none is doubled; half of them submitted and awaited, half by Prove, each also sent twice."""
    def one(n: int):
        fields = snap(request_id=f"job {n}", sector_number=n)
        if n % 2:
            result = curio.Prove(timeout=120, submit=fields).result
        else:
            curio.SubmitProof(timeout=120, **fields)
            result = curio.AwaitProof(timeout=120, job_id=f"job {n}")
        curio.SubmitProof(timeout=120, **fields)
        return result

    with ThreadPoolExecutor(32) as threads:
        found = list(threads.map(one, range(1000)))
    assert [each.job_id for each in found] == [f"job {n}" for n in range(1000)]
    assert {each.status for each in found} == {1}
    by_sector = {request.sector_id[1]: proof_of(request) for request in daemon.prover.requests}
    assert len(daemon.prover.requests) == len(by_sector) == 1000
    assert [each.proof for each in found] == [by_sector[n] for n in range(1000)]
    assert curio.GetStatus().total_proofs_completed == 1000
    assert len(daemon.client().jobs()) == 1000


def test_a_thousand_at_a_time(curio, daemon, held):
    request = lambda n: curio.messages.SubmitProofRequest(**snap(request_id=str(n), sector_number=n))
    waiting = [curio.future("Prove", submit=request(n)) for n in range(1000)]
    until(lambda: sum(q.pending + q.in_progress for q in curio.GetStatus().queues) == 1000)
    held.going.set()
    assert {each.result(timeout=60).result.status for each in waiting} == {1}
    assert len(daemon.prover.requests) == 1000


def until(true, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        threading.Event().wait(0.02)
