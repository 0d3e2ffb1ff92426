"""A thread that runs JAX: takes tasks in their order, and between two pieces of one turns to a more urgent one."""
from __future__ import annotations

import heapq
import itertools
import threading
from concurrent.futures import CancelledError, Future
from typing import Callable, NamedTuple

from ..kernels import pieces
from .urgency import Order


class _Task(NamedTuple):
    order: Order
    number: int
    function: Callable
    future: Future
    wanted: Callable[[], bool]


class Lane(NamedTuple):
    """A device for the tasks of one partition: `submit` as executors have it."""

    device: "Device"
    order: Order
    wanted: Callable[[], bool] = lambda: True

    def submit(self, function: Callable, *args) -> Future:
        """Raises RuntimeError after the device's end."""
        return self.device.submit(self.order, lambda: function(*args), self.wanted)


class Device:
    """One thread; `submit` from any other."""

    def __init__(self, name: str = "device"):
        self._tasks: list[_Task] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, order: Order, function: Callable, wanted: Callable[[], bool] = lambda: True) -> Future:
        """Run `function` when its turn comes; cancelled if it is not `wanted` by then. Raises RuntimeError after `close`."""
        future: Future = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the device is closed")
            heapq.heappush(self._tasks, _Task(order, next(self._numbers), function, future, wanted))
            self._changed.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._tasks and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                task = heapq.heappop(self._tasks)
            self._take(task)

    def _take(self, task: _Task) -> None:
        if not task.wanted():
            task.future.cancel()
            return
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            with pieces.interrupted_by(lambda: self._turn(task)):
                found = task.function()
        except BaseException as error:      # carried to whoever waits
            task.future.set_exception(error)
        else:
            task.future.set_result(found)

    def _turn(self, running: _Task) -> None:
        """Between two pieces of a task: do what interrupts it, or end it where nobody wants it any more."""
        if not running.wanted():
            raise CancelledError
        while True:
            with self._changed:
                if self._closed:
                    raise CancelledError
                if not self._tasks or not self._tasks[0].order.interrupts(running.order):
                    return
                task = heapq.heappop(self._tasks)
            self._take(task)

    def close(self) -> None:
        """Cancel what waits; what runs ends after its piece."""
        with self._changed:
            self._closed = True
            tasks, self._tasks = self._tasks, []
            self._changed.notify_all()
        for task in tasks:
            task.future.cancel()
