"""The process that synthesises partitions: `python -m cuzk_cli.prove.worker FD`. It never imports JAX.

Messages on the socket are an 8-byte length and a pickle; an answer that holds an assignment carries its memfd beside the
length. A closed socket ends the process, so that no worker outlives its owner.
"""
from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import sys
import time
import traceback

from ..errors import CuzkError
from ..faults import as_error

LENGTH = struct.Struct("<Q")


def receive(connection: socket.socket) -> tuple[object, int | None]:
    """One message and the descriptor beside it, if any. Raises EOFError when the other side is gone."""
    head, fds, _, _ = socket.recv_fds(connection, LENGTH.size, 1)
    while len(head) < LENGTH.size:
        more = connection.recv(LENGTH.size - len(head)) if head else b""
        if not more:
            raise EOFError
        head += more
    left, parts = LENGTH.unpack(head)[0], []
    while left:
        part = connection.recv(min(left, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return pickle.loads(b"".join(parts)), (fds[0] if fds else None)


def send(connection: socket.socket, message: object, fd: int | None = None) -> None:
    """Send `message`, with a descriptor beside it if one is given."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    head = LENGTH.pack(len(body))
    if fd is None:
        connection.sendall(head)
    else:
        socket.send_fds(connection, [head], [fd])
    connection.sendall(body)


def serve(connection: socket.socket) -> None:
    """Answer tasks until the socket closes. A task is (kind, sector_size, witness)."""
    from .circuits import synthesise
    from .shared import shape_of, share

    while True:
        try:
            task, _ = receive(connection)
        except (EOFError, ConnectionError):
            return
        started = time.perf_counter()
        try:
            assignment = synthesise(*task)
            fd, layout = share(assignment)
            answer = ("done", layout, shape_of(assignment), (time.perf_counter() - started) * 1e3)
            del assignment
        except CuzkError as error:
            fd, answer = None, ("refused", error)
        except Exception as error:                  # whatever it is, the owner reports it, a fault with its trace
            known = as_error(f"synthesis of {task[0]}", error) if isinstance(error, (MemoryError, OSError)) else None
            fd, answer = None, ("refused", known) if known else ("failed", traceback.format_exc())
        try:
            send(connection, answer, fd)
        except ConnectionError:
            return
        finally:
            if fd is not None:
                os.close(fd)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)    # the owner decides when a worker stops
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
