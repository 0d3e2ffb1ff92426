"""The status is read apart from the server's loop: a folder that hangs keeps nobody from the page."""
from __future__ import annotations

import asyncio
import threading
from typing import Callable

from .routes import Shown

FRESH_SECONDS = 0.25        # a reading serves all who ask within


class Source:
    """Belongs to one event loop. `read`: gives `schema.ANSWER`; called by one thread at a time."""

    def __init__(self, read: Callable[[], dict]):
        self._read = read
        self._reading: asyncio.Future | None = None
        self._until = 0.0

    async def get(self) -> Shown:
        """The reading that is under way, or a new one. Raises what `read` raises."""
        loop = asyncio.get_running_loop()
        if self._reading is None or self._reading.done() and loop.time() > self._until:
            self._reading = loop.create_future()
            threading.Thread(target=self._load, args=(loop, self._reading), name="serve-read", daemon=True).start()
        return await asyncio.shield(self._reading)

    def _load(self, loop: asyncio.AbstractEventLoop, reading: asyncio.Future) -> None:
        try:
            finish, value = reading.set_result, Shown.of(self._read())
        except Exception as error:      # carried to those who wait
            finish, value = reading.set_exception, error

        def done() -> None:
            self._until = loop.time() + FRESH_SECONDS
            finish(value)
            reading.exception()         # seen: it may be that nobody waits any more

        try:
            loop.call_soon_threadsafe(done)
        except RuntimeError:            # the server was closed meanwhile
            pass
