"""Long work runs on a thread of its own: the main thread sleeps in short steps and answers signals within a second.

The first SIGINT or SIGTERM raises `Stopped` in the main thread, the second ends the process at once.
"""
from __future__ import annotations

import os
import signal
import threading
from typing import Callable, TypeVar

T = TypeVar("T")
STEP = 0.1      # seconds


class Stopped(BaseException):
    """A signal asks for the end. No Exception, so that nothing on the way takes it for a failure."""

    def __init__(self, number: int):
        self.number = number
        super().__init__(number)

    @property
    def exit(self) -> int:
        return 128 + self.number

    @property
    def name(self) -> str:
        return signal.Signals(self.number).name


def catch_signals() -> None:
    """Install the handlers. A signal that was ignored when we began (nohup, a shell's background job) stays ignored."""
    received = []

    def handle(number, frame) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handle)


def apart(work: Callable[[], T], tick: Callable[[], None] = lambda: None, name: str = "work") -> T:
    """What `work` returns or raises; `tick` is called between sleeps.

    Raises Stopped; the thread then goes on until the process ends.
    """
    found: dict = {}

    def run() -> None:
        try:
            found["value"] = work()
        except BaseException as error:      # carried to the main thread
            found["error"] = error

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    alive = True
    while alive:
        thread.join(STEP)
        alive = thread.is_alive()
        tick()              # once more when it has ended, however soon that was
    if "error" in found:
        raise found["error"]
    return found["value"]


def within(seconds: float, *steps: Callable[[], object]) -> None:
    """Take each step in turn, but wait no longer than this for all of them: what hangs must not keep the process."""
    def run() -> None:
        for step in steps:
            step()

    thread = threading.Thread(target=run, name="last steps", daemon=True)
    thread.start()
    thread.join(seconds)
