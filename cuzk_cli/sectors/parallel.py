"""Many sectors read at once, each with a deadline of its own: one that hangs delays and names only itself.

A system call on storage that hangs cannot be stopped. Its thread is left behind, and another takes its place.
"""
from __future__ import annotations

import threading
import time
from typing import Callable, Sequence

from ..errors import CuzkError, Exit, fail

READERS = 16


def each(work: Callable, items: Sequence, name: Callable[[object], str], seconds: float,
         readers: int = READERS) -> list:
    """work(i, item) of every item, in order: what it gave, or the CuzkError that it raised.

    Whatever takes longer than `seconds` from its own start is a CuzkError (INPUT) that names the item. What else `work`
    raises is raised here.
    """
    found: dict[int, object] = {}
    running: dict[int, float] = {}          # item -> when it must be done
    changed, waiting = threading.Condition(), iter(range(len(items)))

    def reader() -> None:
        while True:
            with changed:
                i = next(waiting, None)
                if i is None:
                    return
                running[i] = time.monotonic() + seconds
                changed.notify_all()
            try:
                result = work(i, items[i])
            except BaseException as error:      # for whoever waits
                result = error
            with changed:
                if i not in running:            # too late: another reader took this one's place
                    return
                del running[i]
                found[i] = result
                changed.notify_all()

    def start() -> None:
        threading.Thread(target=reader, name="read a sector", daemon=True).start()

    for _ in range(min(readers, len(items))):
        start()
    with changed:
        while len(found) < len(items):
            now = time.monotonic()
            for i in [i for i, limit in running.items() if limit <= now]:
                del running[i]
                found[i] = fail(Exit.INPUT, "read the sector", name(items[i]), f"an answer within {seconds:g} s",
                                "none", "its storage hangs, or is slow: --read-timeout")
                start()
            if len(found) < len(items):
                changed.wait(max(min(running.values(), default=now + 1) - now, 0.001))
    for result in found.values():
        if isinstance(result, BaseException) and not isinstance(result, CuzkError):
            raise result
    return [found[i] for i in range(len(items))]
