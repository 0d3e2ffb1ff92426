"""Who goes first, who may interrupt whom, and that nothing starves."""
from cuzk_cli.prove.urgency import Order, Urgency, of_kind


def test_kinds():
    assert of_kind("winning") == Urgency.CRITICAL and of_kind("window") == Urgency.HIGH
    assert of_kind("snap") == of_kind("porep") == Urgency.NORMAL


def test_the_more_urgent_goes_first_and_equals_in_order_of_arrival():
    orders = [Order.of(urgency, i, arrived=100.0 + i) for i, urgency in enumerate(
        (Urgency.LOW, Urgency.NORMAL, Urgency.HIGH, Urgency.NORMAL, Urgency.CRITICAL))]
    assert [order.sequence for order in sorted(orders)] == [4, 2, 1, 3, 0]
    one = Order.of(Urgency.NORMAL, 7, 0.0)
    assert sorted([one.at(2), one.at(0), one.at(1)]) == [one.at(0), one.at(1), one.at(2)]


def test_nothing_starves():
    """A proof that waits is passed by new WindowPoSts for some hours and no longer, and by no stream of anything."""
    old = Order.of(Urgency.NORMAL, 0, arrived=0.0)
    assert Order.of(Urgency.HIGH, 1, arrived=3600.0) < old < Order.of(Urgency.HIGH, 2, arrived=5 * 3600.0)
    assert old < Order.of(Urgency.CRITICAL, 3, arrived=25 * 3600.0)


def test_only_the_more_urgent_interrupts():
    normal, earlier = Order.of(Urgency.NORMAL, 1, 50.0), Order.of(Urgency.NORMAL, 0, 10.0)
    assert earlier < normal and not earlier.interrupts(normal) and not normal.interrupts(earlier)
    assert Order.of(Urgency.HIGH, 2, 60.0).interrupts(normal) and not normal.interrupts(Order.of(Urgency.HIGH, 2, 60.0))
    assert not Order.of(Urgency.HIGH, 2, 5 * 3600.0).interrupts(Order.of(Urgency.NORMAL, 1, 0.0))    # who waited long
