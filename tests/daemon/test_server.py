"""What listens: its socket, what it reads of strange clients, and how it ends."""
import os
import socket
import stat
import threading
import time

import grpc
import pytest

from cuzk_cli import __version__
from cuzk_cli.daemon import address, server
from cuzk_cli.daemon.client import Client
from cuzk_cli.daemon.proto import control, proving
from cuzk_cli.errors import CuzkError, Exit, fail
from cuzk_cli.status import Tracker

from .conftest import snap
from .curio import Curio
from .fake import Prover, running
from .test_service import until


# ---- the socket
def test_nobody_else_can_connect(daemon):
    path = daemon.address.path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700


def test_a_second_daemon_is_refused(daemon):
    with pytest.raises(CuzkError) as found:
        with running(listen=str(daemon.address)):
            pass
    assert found.value.exit == Exit.BUSY and f"process {os.getpid()} listens there" in str(found.value)
    assert daemon.client().hello().pid == os.getpid()


def test_nothing_is_left(tmp_path_factory):
    with running() as found:
        folder = found.address.path.parent
        found.client().hello()
        found.daemon.stop()
        found.thread.join(10)
        assert os.listdir(folder) == []


def test_a_socket_that_a_dead_daemon_left_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    (tmp_path / "s.lock").write_text("99999999")
    with running(listen=f"unix:{tmp_path}/s") as found:
        assert found.client().hello().pid == os.getpid()


@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_is_no_socket_stays(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CuzkError) as found:
        with running(listen=f"unix:{tmp_path / name}"):
            pass
    assert found.value.exit == Exit.OUTPUT and sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CuzkError) as found:
        with running(listen=f"unix:{tmp_path}/file/d/s"):
            pass
    assert found.value.exit == Exit.OUTPUT


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b#c", "ü"])
def test_any_path(tmp_path, name):
    with running(listen=f"unix:{tmp_path}/{name}") as found:
        assert found.client().hello().pid == os.getpid()
        assert stat.S_ISSOCK(os.stat(tmp_path / name).st_mode)


def test_tcp(classes):
    with running(listen="127.0.0.1:0") as found, found.channel() as channel:
        assert Curio(channel, classes).Prove(submit=snap(request_id="a")).result.status == 1
        with pytest.raises(CuzkError) as second:        # no two daemons share a port
            with running(listen=str(found.address)):
                pass
        assert second.value.exit == Exit.BUSY


def test_the_prover_is_made_when_the_address_is_ours(daemon):
    made = []
    second = server.Daemon(daemon.address, lambda: made.append(1), None, None, None)
    with pytest.raises(CuzkError):
        second.run()
    assert not made and second.ended.is_set()


def test_a_prover_that_cannot_be_made(tmp_path):
    def make():
        raise fail(Exit.DEVICE, "no device")

    found = server.Daemon(address.parse(f"unix:{tmp_path}/s"), make, None, None, None)
    with pytest.raises(CuzkError, match="no device"):
        found.run()
    assert found.ended.is_set() and os.listdir(tmp_path) == []


# ---- strange clients
def send(daemon, call: str, *messages: bytes, seconds: float = 20) -> tuple[str, str]:
    """(code, details) of a call with so many messages."""
    with daemon.channel() as channel:
        try:
            channel.stream_unary(call)(iter(messages), timeout=seconds)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    return "OK", ""


@pytest.mark.parametrize("call", ["ProvingEngine/SubmitProof", "ProvingEngine/Prove", "ProvingEngine/AwaitProof",
                                  "Control/Submit", "Control/Wait"])
def test_malformed(daemon, call):
    path = f"/cuzk.v1.{call}"
    assert send(daemon, path, b"\xff" * 20)[0] == "INVALID_ARGUMENT"
    assert send(daemon, path)[0] == "INVALID_ARGUMENT"                          # no message
    assert send(daemon, path, b"", b"")[0] == "INVALID_ARGUMENT"                # two
    assert send(daemon, path, b"\x0a\xff\xff\xff\xff\x0f")[0] == "INVALID_ARGUMENT"     # a length of 4 GiB
    assert send(daemon, path, b"\x0a\x02\xff\xfe")[0] == "INVALID_ARGUMENT"     # text that is no UTF-8
    assert daemon.client().hello().pid == os.getpid()


def test_deeply_nested_or_unknown_fields(daemon):
    assert send(daemon, "/cuzk.v1.ProvingEngine/Prove", b"\x0b" * 10_000)[0] == "INVALID_ARGUMENT"      # groups
    request = proving.SubmitProofRequest(**snap(request_id="a")).SerializeToString() + b"\xfa\x3f\x01x"
    assert send(daemon, "/cuzk.v1.ProvingEngine/SubmitProof", request)[0] == "OK"       # a newer client's field


def test_unknown_calls(daemon):
    for path in ("/cuzk.v1.ProvingEngine/Nope", "/cuzk.v2.ProvingEngine/Prove", "/x", "/"):
        assert send(daemon, path, b"")[0] == "UNIMPLEMENTED"


def test_oversized(daemon):
    assert send(daemon, "/cuzk.v1.ProvingEngine/SubmitProof", bytes(server.MESSAGE + 1))[0] == "RESOURCE_EXHAUSTED"
    code, text = send(daemon, "/cuzk.v1.ProvingEngine/AwaitProof", bytes(server.SMALL.bytes + 1))
    assert code == "RESOURCE_EXHAUSTED" and "65537 bytes" in text
    assert daemon.client().hello().pid == os.getpid()


def test_calls_that_send_nothing(daemon):
    """Others are served meanwhile."""
    with daemon.channel() as channel:
        gate = threading.Event()
        calls = [channel.stream_unary("/cuzk.v1.ProvingEngine/AwaitProof").future(later(gate)) for _ in range(16)]
        assert daemon.client().hello().pid == os.getpid()
        gate.set()
        assert {call.code().name for call in calls} == {"NOT_FOUND"}


def later(gate: threading.Event):
    """A stream of one message, when the gate is open."""
    gate.wait(20)
    yield b""


def test_a_request_that_does_not_end(classes, monkeypatch):
    monkeypatch.setattr(server, "SMALL", server.Reading(1, 0.3, 1 << 16))
    with running() as found, found.channel() as channel:
        gate = threading.Event()
        started = time.monotonic()
        call = channel.stream_unary("/cuzk.v1.ProvingEngine/AwaitProof").future(later(gate))
        assert found.client().hello().pid == os.getpid()        # after it, in the one slot
        assert call.code().name == "DEADLINE_EXCEEDED" and "was not whole within" in call.details()
        assert time.monotonic() - started < 10
        gate.set()


def test_garbage(daemon):
    for data in (b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), b"\0" * 100_000,
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\xff\x01\x04\0\0\0\x01" + b"\xff" * 255):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(daemon.address.path))
            try:
                client.sendall(data)
                while client.recv(1 << 16):     # it answers with little, and closes
                    pass
            except OSError:
                pass
    assert daemon.client().hello().pid == os.getpid()


def test_a_fault_of_ours_is_one_line(daemon, curio, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(daemon.prover, "loaded", lambda: 1 / 0)
    with pytest.raises(grpc.RpcError) as found:
        curio.GetStatus()
    assert found.value.code().name == "INTERNAL" and "ZeroDivisionError" in found.value.details()
    assert "Traceback" not in found.value.details() and "Traceback" in (tmp_path / "cuzk/error.log").read_text()


def test_a_prover_that_refuses_or_breaks_fails_the_job(daemon, curio, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(daemon.prover, "submit", lambda *given, **more: 1 / 0)
    found = curio.Prove(submit=snap(request_id="a")).result
    assert found.status == 2 and "ZeroDivisionError" in found.error_message


# ---- the end
def test_stop_tells_those_who_wait(curio, daemon, held):
    waiting = [curio.future("Prove", submit=curio.messages.SubmitProofRequest(**snap(request_id=id, sector_number=n)))
               for n, id in enumerate("01234")]
    until(lambda: sum(q.pending + q.in_progress for q in curio.GetStatus().queues) == 5)
    until(lambda: len(daemon.client().jobs()) == 5)
    waiting.append(curio.future("AwaitProof", job_id="0"))      # known by now
    time.sleep(0.5)             # a call that arrives with the end is cancelled by gRPC
    started = time.monotonic()
    daemon.daemon.stop()
    codes = {call.code().name for call in waiting}
    assert codes == {"UNAVAILABLE"} and time.monotonic() - started < 3
    assert "the daemon stops" in waiting[0].details()
    assert daemon.daemon.ended.wait(5) and daemon.daemon.lost == 5 and held.closed and held.cancelled == 0


def test_stop_before_the_start(tmp_path):
    prover = Prover(Tracker())
    found = server.Daemon(address.parse(f"unix:{tmp_path}/s"), lambda: prover, prover.tracker, None, None)
    found.stop()
    found.run()
    assert found.ended.is_set() and prover.closed and os.listdir(tmp_path) == []


def test_drain(curio, daemon, held):
    client = daemon.client()
    curio.SubmitProof(**snap(request_id="a"))
    assert client.drain(wait=False) == 1 and client.hello().draining
    for refused in (lambda: curio.SubmitProof(**snap(request_id="b", sector_number=2)),
                    lambda: curio.Prove(submit=snap(request_id="c", sector_number=3))):
        with pytest.raises(grpc.RpcError) as found:
            refused()
        assert found.value.code().name == "UNAVAILABLE" and "is being drained" in found.value.details()
    assert curio.SubmitProof(**snap(request_id="a")).job_id == "a"      # what it has it goes on with
    assert client.drain(wait=False, undo=True) == 0 and not client.hello().draining
    curio.SubmitProof(**snap(request_id="b", sector_number=2))
    waiting = threading.Thread(target=lambda: client.drain(wait=True))
    waiting.start()
    until(lambda: client.hello().draining)
    assert waiting.is_alive()
    held.going.set()
    waiting.join(10)
    assert not waiting.is_alive() and [job["state"] for job in client.jobs()] == ["done", "done"]
    assert daemon.thread.is_alive()                                     # results can be fetched


def test_drain_and_stop(curio, daemon, held):
    curio.SubmitProof(**snap(request_id="a"))
    waiting = curio.future("AwaitProof", job_id="a")
    daemon.client().drain(wait=False, stop=True)
    assert not daemon.daemon.ended.wait(0.3)
    held.going.set()
    assert waiting.result(10).status == 1
    assert daemon.daemon.ended.wait(10) and daemon.daemon.lost == 0


# ---- our own calls
def test_hello(daemon):
    found = daemon.client().hello()
    assert (found.version, found.pid) == (__version__, os.getpid())
    assert (found.parameter_folder, found.device) == ("/params", "cpu")
    assert not found.test_params and not found.draining and len(found.storage) == 1


def test_client_errors(daemon, tmp_path):
    client = daemon.client()
    for call, exit in ((lambda: client.wait("x"), Exit.INPUT), (lambda: client.cancel("x"), Exit.INPUT),
                       (lambda: client.submit({"kind": "nope"}), Exit.USAGE),
                       (lambda: client.submit({"kind": "snap", "sector": "/etc/s-t01000-1"}), Exit.INPUT)):
        with pytest.raises(CuzkError) as found:
            call()
        assert found.value.exit == exit
    with pytest.raises(CuzkError) as found:
        Client(address.parse(f"unix:{tmp_path}/none")).hello()
    assert found.value.exit == Exit.BUSY and "cuzk daemon" in found.value.problems[0].hint


def test_a_job_by_its_sector(daemon, held):
    client = daemon.client()
    job = {"kind": "snap", "sector": "s-t01000-1"}
    first = client.submit(job, request_id="a", priority="high", deadline=2e9)
    assert first == {"job_id": "a", "queue_position": 0, "joined": False}
    assert client.submit(job, request_id="a")["joined"]
    until(lambda: client.wait("a", 0.01)[1]["pipelines"])
    result, progress = client.wait("a", 0.01)
    assert result is None and [p["state"] for p in progress["pipelines"][0]["partitions"]] == ["gpu"]
    assert [w["worker_id"] for w in progress["gpu_workers"]] == [0]
    (line,) = client.jobs()
    assert (line["job_id"], line["state"], line["subject"], line["priority"], line["deadline_unix"]) == (
        "a", "running", "s-t01000-1", "high", 2e9)
    held.going.set()
    result, progress = client.wait("a")
    assert result["ok"] and progress is None and result["proof"]
    assert list(client.watch("a", 1.0))[-1][0] == result
    assert client.jobs()[0]["state"] == "done"


def test_a_cancelled_job_has_a_result(daemon, held):
    client = daemon.client()
    client.submit({"kind": "snap", "sector": "s-t01000-1"}, request_id="a")
    assert client.cancel("a", "not needed") and not client.cancel("a")
    result, _ = client.wait("a")
    assert (result["ok"], result["exit"], result["cancelled"]) == (False, 130, True)
    assert "not needed" in result["errors"][0]["message"]
    assert client.jobs()[0]["state"] == "cancelled" and client.jobs()[0]["error"] == "not needed"


def test_strange_control_messages(daemon):
    submit, wait = control.SubmitRequest(job="[" * 100_000), control.WaitRequest(job_id="x" * 60_000)
    assert send(daemon, "/cuzk.v1.Control/Submit", submit.SerializeToString())[0] == "OK"      # it says what is wrong
    assert send(daemon, "/cuzk.v1.Control/Wait", wait.SerializeToString())[0] == "NOT_FOUND"
