"""Many sectors read at once: order, failures, deadlines, and storage that hangs."""
import threading
import time

import pytest

from cuzk_cli.errors import CuzkError, Exit, fail
from cuzk_cli.sectors import parallel, watch


def read(work, items, seconds=10.0, readers=4):
    return parallel.each(work, items, str, seconds, readers)


def nothing_is_read():
    """Threads that were left behind have ended."""
    for _ in range(1000):
        if not watch.blocked(0.0):
            return
        time.sleep(0.01)
    raise AssertionError(watch.blocked(0.0))


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
            with watch.reading("read", f"/far/{item}"):
                let_go.wait(20)
        return item

    started = time.monotonic()
    try:
        found = read(work, list(range(20)), seconds=0.2, readers=2)
    finally:
        let_go.set()
    nothing_is_read()
    assert time.monotonic() - started < 10
    assert [isinstance(r, CuzkError) for r in found] == [i < 6 for i in range(20)] and found[6:] == list(range(6, 20))
    assert found[4].exit == Exit.INPUT and found[4].problems[0].path == "/far/4"
    assert "read the sector 4" in found[4].problems[0].line()


def test_many_slow_reads_add_up():
    def work(i, item):
        for _ in range(20 if item == 1 else 2):
            with watch.reading("read", "file"):
                time.sleep(0.05)
        return item

    found = read(work, [0, 1, 2], seconds=0.4)
    assert found[0] == 0 and found[2] == 2 and isinstance(found[1], CuzkError)
    nothing_is_read()


def test_waiting_and_computing_are_not_reading():
    assert read(lambda i, item: time.sleep(0.1) or item, list(range(8)), seconds=0.05, readers=2) == list(range(8))
