"""Many sectors read at once, each with so much time for its reads: one that hangs delays and names only itself.

A system call on storage that hangs cannot be stopped. Its thread is left behind, and another takes its place.
"""
from __future__ import annotations

import threading
from typing import Callable, Sequence

from ..errors import CuzkError, Exit, fail
from . import watch

READERS = 16


def each(work: Callable, items: Sequence, name: Callable[[object], str], seconds: float,
         readers: int = READERS) -> list:
    """work(i, item) of every item, in order: what it gave, or the CuzkError that it raised.

    An item whose reads (`watch.reading`) have taken more than `seconds` together is a CuzkError (INPUT) that names it;
    what it computes does not count. What else `work` raises is raised here.
    """
    found: dict[int, object] = {}
    running: dict[int, int] = {}            # item -> thread
    changed, waiting = threading.Condition(), iter(range(len(items)))

    def reader() -> None:
        while True:
            with watch.metered() as thread:
                with changed:
                    i = next(waiting, None)
                    if i is None:
                        return
                    running[i] = thread
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
            for i, thread in list(running.items()):
                took, path = watch.spent(thread)
                if took > seconds:
                    del running[i]
                    found[i] = fail(Exit.INPUT, f"read the sector {name(items[i])}", path,
                                    f"at most {seconds:g} s of reading",
                                    f"{took:.1f} s", "its storage hangs, or is slow: --read-timeout")
                    start()
            if len(found) < len(items):
                changed.wait(min(max(seconds / 8, 0.01), 1.0))
    for result in found.values():
        if isinstance(result, BaseException) and not isinstance(result, CuzkError):
            raise result
    return [found[i] for i in range(len(items))]
