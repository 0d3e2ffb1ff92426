"""What is malformed, oversized, endless or too much ends within bounds, and others are served meanwhile."""
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cuzk_cli.serve import Limits, start
from cuzk_cli.status import read_status

from .common import QUICK, ask, connect, parsed, raw, received, serving

HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize("request_, status", [
    (b"\r\n\r\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"GET /status\r\n\r\n", 400),
    (b"GET  /status HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /sta tus HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /status HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    (b"GET /status HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    (b"GET /status HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"A: b\r\n folded\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"A: x\nB: y\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"no colon\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 101 + b"\r\n", 431),
    (b"GET http://localhost/status HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),       # TLS
    (b"GET /status HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n", 200),
    (b"GET /status HTTP/1.1\r\n" + HOST + b"\r\nGET /metrics HTTP/1.1\r\n\r\n", 200),      # one request a connection
])
def test_malformed(server, request_, status):
    assert raw(server, request_).status == status


@pytest.mark.parametrize("junk", [b"A" * (1 << 20), b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n",
                                  b"GET / HTTP/1.1\r\nA: " + b"x" * (1 << 20)])
def test_oversized_and_endless_heads(server, junk):
    with connect(server) as client:
        sent = threading.Thread(target=_send, args=(client, junk))
        sent.start()
        data = b""
        try:
            data = received(client)
        except ConnectionError:     # what we went on sending was refused
            pass
        sent.join(10)
    assert not sent.is_alive() and data.startswith((b"", b"HTTP/1.1 431 "))
    assert ask(server).status == 200


def _send(client, data):
    try:
        client.sendall(data)
    except OSError:
        pass


def test_a_head_that_is_a_little_too_large_is_told_so(server):
    got = raw(server, b"GET /status HTTP/1.1\r\n" + HOST + b"A: " + b"x" * QUICK.head_bytes + b"\r\n\r\n")
    assert got.status == 431
    assert raw(server, b"GET /status HTTP/1.1\r\n" + HOST + b"A: " + b"x" * (QUICK.head_bytes - 100) + b"\r\n\r\n").status == 200


def test_slow_loris(server):
    """A byte now and then does not keep the connection: the time is counted from its begin."""
    began = time.monotonic()
    with connect(server) as client:
        ended = threading.Event()

        def drip():
            for byte in b"GET /status HTTP/1.1\r\n" + b"A: b\r\n" * 100:
                if ended.wait(0.05):
                    return
                _send(client, bytes([byte]))

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert parsed(client.recv(4096)).status == 408
        finally:
            ended.set()
            dripping.join()
    assert time.monotonic() - began < 15


def test_nothing_at_all(server):
    with connect(server) as client:
        assert parsed(received(client)).status == 408
    with connect(server):
        pass
    with connect(server) as client:
        client.sendall(b"GET /status HTTP/1.1\r\n")
        client.shutdown(socket.SHUT_WR)
        assert parsed(received(client)).status == 400
    assert ask(server).status == 200


def test_100_clients_at_once(server):
    together = threading.Barrier(100)

    def one(i):
        with connect(server) as client:
            together.wait(30)
            client.sendall(b"GET /status HTTP/1.1\r\n" + HOST + b"\r\n")
            return parsed(received(client))

    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(one, range(100)))
    assert [a.status for a in answers] == [200] * 100
    assert all(len(a.body) == int(a.headers["Content-Length"]) for a in answers)


def test_many_idle_connections_do_not_keep_others_out(folder):
    server = serving(folder, limits=QUICK._replace(connections=8, head_seconds=30.0))
    idle = [connect(server) for _ in range(20)]
    for _ in range(10):
        assert ask(server).status == 200
    for client in idle[:8]:
        client.settimeout(5)
        try:
            assert client.recv(1) == b""        # the oldest were closed
        except ConnectionResetError:
            pass
    for client in idle:
        client.close()
    server.close()


def test_a_client_that_reads_nothing_is_left(folder):
    big = "x" * 1000
    answer = read_status(folder)
    answer["reasons"] = [big] * 20_000      # more than the kernel's buffers hold
    server = start("127.0.0.1:0", None, lambda: answer, limits=QUICK)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", int(server.name.rpartition(":")[2])))
        client.sendall(b"GET /status HTTP/1.1\r\n" + HOST + b"\r\n")
        time.sleep(QUICK.send_seconds + 1.0)
        assert not server._open
        assert ask(server, "/healthz").status == 200
    server.close()


def test_a_status_that_hangs(folder):
    go = threading.Event()
    calls = []

    def read():
        calls.append(1)
        go.wait(60)
        return read_status(folder)

    server = start("127.0.0.1:0", None, read, limits=QUICK)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: ask(server), range(10)))
    assert {a.status for a in answers} == {503} and len(calls) == 1     # one reading for all
    assert ask(server, "/").status == 200
    go.set()
    for _ in range(100):
        if ask(server).status == 200:
            break
    else:
        pytest.fail("it did not recover")
    server.close()


def test_a_fault_while_reading(folder):
    def read():
        raise RuntimeError("secret")

    server = start("127.0.0.1:0", None, read, limits=Limits())
    got = ask(server)
    assert got.status == 500 and b"secret" not in got.body and ask(server, "/").status == 200
    server.close()
