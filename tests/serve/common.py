"""What the tests of the server share: a client without opinions, and documents of provers that do not run."""
import socket
from typing import NamedTuple

from cuzk_cli.serve import Limits, start
from cuzk_cli.status import Tracker, Writer, read_status

QUICK = Limits(head_seconds=0.5, read_seconds=0.5, send_seconds=1.0)
TOKEN = "0123456789abcdef-TOKEN"


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes


def connect(server):
    """A connected socket."""
    if server.name.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        client.connect(server.name.removeprefix("unix:"))
        return client
    host, _, port = server.name.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=20)


def received(client) -> bytes:
    """All that comes until the other side ends."""
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    assert first.startswith("HTTP/1.1 "), data[:100]
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return Answer(int(first.split()[1]), headers, body)


def raw(server, request: bytes) -> Answer:
    with connect(server) as client:
        client.sendall(request)
        return parsed(received(client))


def ask(server, path="/status", method="GET", host="localhost", **headers) -> Answer:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    return raw(server, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def serving(folder, address="127.0.0.1:0", token=None, limits=QUICK, **more):
    return start(address, token, lambda: read_status(folder), limits=limits, **more)


def tracker(folder) -> Tracker:
    """This process, proving P3 of a job on W0; P2 is done."""
    found = Tracker(Writer(folder, fsync=False))
    found.add_workers([(0, 0), (1, 0)])
    found.job_started("snap-1000-17-0123456789ab", "snap", [2, 3, 4])
    found.partition_gpu_end(found.partition_gpu_start("snap-1000-17-0123456789ab", 2, 0), "done", 1200.0)
    found.partition_gpu_start("snap-1000-17-0123456789ab", 3, 0)
    return found
