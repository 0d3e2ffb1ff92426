"""Connections: one thread and one event loop, each connection bounded in bytes and seconds, and all of them in number."""
from __future__ import annotations

import asyncio
import socket
import threading
from http import HTTPStatus
from typing import Callable, NamedTuple

from .address import Listener, listen
from .http import Refused, Response, parse
from .routes import Routes
from .source import Source


class Limits(NamedTuple):
    """Of the server; with these it holds at most a few MB for requests."""

    connections: int = 128
    head_bytes: int = 16 << 10
    head_seconds: float = 5.0       # until the request is there, whole
    read_seconds: float = 5.0       # until the status is read
    send_seconds: float = 10.0      # until the client has the response and has closed


def start(address: str, token: str | None, read: Callable[[], dict], hosts: tuple[str, ...] = (),
          limits: Limits = Limits()) -> Server:
    """Listen, and answer on a daemon thread until `close`.

    address: HOST:PORT, [IPv6]:PORT or unix:PATH. token: what clients must show, None only where other machines cannot
    reach the address. read: gives `status.read_status`'s answer. hosts: names by which clients may call the server.
    Raises CuzkError (USAGE) for an address on which it cannot listen.
    """
    listener = listen(address, allowed=token is not None)
    names = hosts + tuple(name for name in (listener.host, socket.gethostname()) if name)
    return Server(listener, names, token, read, limits)


class Server:
    """Thread-safe. `name`: the address with the port that was taken; `url`: of the page."""

    def __init__(self, listener: Listener, names: tuple[str, ...], token: str | None, read: Callable[[], dict],
                 limits: Limits):
        self.name, self.url = listener.name, listener.url
        self._listener, self._limits = listener, limits
        self._routes = Routes(Source(read).get, names, token)
        self._open: dict[asyncio.Task, bool] = {}       # connections, by age: may it be closed for a new one?
        self._loop = asyncio.new_event_loop()
        # what goes wrong while a connection is accepted (no descriptors left) is tried again by the loop
        self._loop.set_exception_handler(lambda loop, context: None)
        self._ended = asyncio.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is closed. Raises what ended it."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop listening and end all connections. May be called again."""
        try:
            self._loop.call_soon_threadsafe(self._ended.set)
        except RuntimeError:        # closed before
            return
        self._thread.join(2.0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *raised) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except Exception as error:      # carried to `wait`
            self._failure = error
        finally:
            self._listener.close()
            self._loop.close()

    async def _main(self) -> None:
        server = await asyncio.start_server(self._accepted, sock=self._listener.socket, limit=self._limits.head_bytes)
        await self._ended.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- a connection
    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._ended.is_set() or not self._make_room():
            writer.transport.abort()
            return
        task = self._loop.create_task(self._exchange(reader, writer))
        self._open[task] = True

        def done(_: asyncio.Task) -> None:
            self._open.pop(task, None)
            writer.transport.abort()

        task.add_done_callback(done)

    def _make_room(self) -> bool:
        """At the limit, the oldest connection that only waits for its client ends. False where all are being answered."""
        if len(self._open) < self._limits.connections:
            return True
        oldest = next((task for task, waits in self._open.items() if waits), None)
        if oldest is None:
            return False
        del self._open[oldest]
        oldest.cancel()
        return True

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        except (OSError, TimeoutError):     # the client is gone, or too slow
            pass

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return              # came and went
            response, head = _refusal(HTTPStatus.BAD_REQUEST, "the request ended early"), b""
        except asyncio.LimitOverrunError:
            text = f"expected at most {self._limits.head_bytes} bytes"
            response, head = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text), b""
        except TimeoutError:
            text = f"expected a request within {self._limits.head_seconds:g} s"
            response, head = _refusal(HTTPStatus.REQUEST_TIMEOUT, text), b""
        else:
            self._open[task] = False
            response = await self._answer(head)
        async with asyncio.timeout(self._limits.send_seconds):
            writer.write(response.encode(head_only=head.startswith(b"HEAD ")))
            await writer.drain()
            self._open[task] = True
            writer.write_eof()
            for _ in range(8):      # what is still on its way to us must not break the client's reading of the response
                if not await reader.read(self._limits.head_bytes):
                    break

    async def _answer(self, head: bytes) -> Response:
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                return await self._routes.answer(parse(head))
        except Refused as refused:
            return refused.response
        except TimeoutError:
            text = f"the status could not be read within {self._limits.read_seconds:g} s"
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, text)
        except Exception:           # a fault of ours: its text is no business of a client's
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")


def _refusal(status: HTTPStatus, text: str) -> Response:
    return Refused(status, text).response
