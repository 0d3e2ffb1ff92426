"""Many sectors read at once: order, failures, deadlines, and storage that hangs."""
import threading
import time

import pytest

from cuzk_cli.errors import CuzkError, Exit, fail
from cuzk_cli.sectors import parallel


def read(work, items, seconds=10.0, readers=4):
    return parallel.each(work, items, str, seconds, readers)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
def test_everything_in_order(count):
    assert read(lambda i, item: (i, item), list(range(100, 100 + count))) == [(i, 100 + i) for i in range(count)]


def test_a_failure_is_a_result():
    def work(i, item):
        if item % 2:
            raise fail(Exit.INPUT, "read", f"sector {item}")
        return item

    found = read(work, list(range(9)))
    assert [isinstance(r, CuzkError) for r in found] == [bool(i % 2) for i in range(9)]
    assert "sector 3" in found[3].problems[0].line()


def test_a_fault_is_raised():
    with pytest.raises(ZeroDivisionError):
        read(lambda i, item: 1 // item, [1, 0])


def test_what_hangs_names_only_itself():
    """More hang than there are readers: the others are read all the same, and a late answer changes nothing."""
    let_go = threading.Event()

    def work(i, item):
        if item < 6:
            let_go.wait(20)
        return item

    started = time.monotonic()
    try:
        found = read(work, list(range(20)), seconds=0.2, readers=2)
    finally:
        let_go.set()
    assert time.monotonic() - started < 10
    assert [isinstance(r, CuzkError) for r in found] == [i < 6 for i in range(20)] and found[6:] == list(range(6, 20))
    assert found[4].exit == Exit.INPUT and found[4].problems[0].path == "4" and "0.2 s" in found[4].problems[0].line()


def test_waiting_in_the_queue_is_not_being_late():
    assert read(lambda i, item: time.sleep(0.05) or item, list(range(12)), seconds=0.5, readers=1) == list(range(12))
