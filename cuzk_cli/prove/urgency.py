"""Which work goes first: WinningPoSt before WindowPoSt before the rest, and nothing starves.

Work is ordered by the time of its arrival less a head start; who has waited longer than the difference of two head starts
goes first, whatever the other is. Only what is more urgent interrupts what runs.
"""
from __future__ import annotations

import time
from enum import IntEnum
from typing import NamedTuple


class Urgency(IntEnum):
    """Smaller is more urgent; the names are those of the network's daemon (proto Priority)."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


_HEAD_START = {Urgency.CRITICAL: 24 * 3600.0, Urgency.HIGH: 4 * 3600.0, Urgency.NORMAL: 0.0, Urgency.LOW: -4 * 3600.0}
_OF_KIND = {"winning": Urgency.CRITICAL, "window": Urgency.HIGH}


def of_kind(kind: str) -> Urgency:
    """Deadlines on chain: seconds for WinningPoSt, half an hour for WindowPoSt."""
    return _OF_KIND.get(kind, Urgency.NORMAL)


class Order(NamedTuple):
    """Sorts work: the smallest goes first."""

    due: float              # seconds, monotonic: arrival less the head start
    sequence: int           # of the job
    partition: int
    urgency: Urgency

    @classmethod
    def of(cls, urgency: Urgency, sequence: int, arrived: float | None = None) -> "Order":
        """That of a whole job; `at` gives its partitions'."""
        arrived = time.monotonic() if arrived is None else arrived
        return cls(arrived - _HEAD_START[urgency], sequence, -1, urgency)

    def at(self, partition: int) -> "Order":
        return self._replace(partition=partition)

    def interrupts(self, other: "Order") -> bool:
        """May this go between two pieces of the other?"""
        return self.urgency < other.urgency and self < other
