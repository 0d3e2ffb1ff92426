"""The device's thread: order, interruption between pieces, tasks that nobody wants any more, the end."""
import threading
from concurrent.futures import CancelledError

import pytest

from cuzk_cli.kernels.pieces import between
from cuzk_cli.prove.device import Device, Lane
from cuzk_cli.prove.urgency import Order, Urgency

NORMAL, URGENT = Order.of(Urgency.NORMAL, 0, 0.0), Order.of(Urgency.CRITICAL, 1, 0.0)


@pytest.fixture
def device():
    made = Device()
    yield made
    made.close()


def held(device):
    """Keep the device busy until the event is set."""
    gate, began = threading.Event(), threading.Event()
    device.submit(NORMAL, lambda: (began.set(), gate.wait(20)))
    assert began.wait(20)
    return gate


def test_tasks_run_in_their_order(device):
    gate, ran = held(device), []
    futures = [device.submit(order, lambda i=i: ran.append(i))
               for i, order in enumerate((NORMAL.at(1), NORMAL.at(0), URGENT, NORMAL.at(0)))]
    gate.set()
    for future in futures:
        future.result(20)
    assert ran == [2, 1, 3, 0]


def test_the_more_urgent_goes_between_two_pieces(device):
    began, gate, ran = threading.Event(), threading.Event(), []

    def long():
        for piece in range(3):
            ran.append(piece)
            began.set()
            assert gate.wait(20)
            between()
        return "long"

    future = device.submit(NORMAL, long)
    assert began.wait(20)
    later = device.submit(NORMAL.at(1), lambda: ran.append("later"))
    urgent = Lane(device, URGENT).submit(lambda: [ran.append("urgent"), between()])
    gate.set()
    assert future.result(20) == "long" and urgent.done() and later.result(20) is None
    assert ran == [0, "urgent", 1, 2, "later"]


def test_a_failure_is_its_own(device):
    gate = held(device)
    bad, good = device.submit(NORMAL, lambda: 1 // 0), device.submit(NORMAL, lambda: 7)
    gate.set()
    with pytest.raises(ZeroDivisionError):
        bad.result(20)
    assert good.result(20) == 7


def test_what_nobody_wants_is_not_run_or_ends_after_its_piece(device):
    wanted, began, gate, ran = [True], threading.Event(), threading.Event(), []

    def long():
        began.set()
        assert gate.wait(20)
        between()
        ran.append("end")

    lane = Lane(device, NORMAL, lambda: wanted[0])
    running, waiting = lane.submit(long), lane.submit(ran.append, "waiting")
    assert began.wait(20)
    wanted[0] = False
    gate.set()
    for future in (running, waiting):
        with pytest.raises(CancelledError):
            future.result(20)
    assert not ran and device.submit(NORMAL, lambda: 3).result(20) == 3


def test_the_end():
    device = Device()
    began, gate = threading.Event(), threading.Event()

    def long():
        began.set()
        assert gate.wait(20)
        between()

    running, waiting = device.submit(NORMAL, long), device.submit(NORMAL, lambda: 1)
    assert began.wait(20)
    device.close()
    gate.set()
    for future in (running, waiting):
        with pytest.raises(CancelledError):
            future.result(20)
    with pytest.raises(RuntimeError):
        device.submit(NORMAL, lambda: 1)
