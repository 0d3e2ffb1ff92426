"""Long work is dispatched in pieces of about a second; between two of them its thread may turn to something more urgent."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Callable, Iterator

_thread = threading.local()


@contextmanager
def interrupted_by(turn: Callable[[], None]) -> Iterator[None]:
    """Within the block, on this thread, `turn` is called between pieces; it may dispatch other work and wait for it."""
    before = getattr(_thread, "turn", None)
    _thread.turn = turn
    try:
        yield
    finally:
        _thread.turn = before


def between() -> None:
    """Called by kernels' host code between two pieces."""
    turn = getattr(_thread, "turn", None)
    if turn is not None:
        turn()
