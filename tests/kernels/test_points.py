"""Encodings to table rows and back; what is no point is found, and where."""
import numpy as np
import pytest

from cuzk_cli.kernels import points
from cuzk_cli.kernels.curve import P
from cuzk_cli.kernels.devices import put_sharded, shards

from .known import GROUPS, encodings, host_point

LOGARITHMS = [1, 2, 3, 0, 2**200 + 7, 5, 6, 7]


@pytest.mark.parametrize("name", GROUPS)
def test_round_trip(name):
    group, _ = GROUPS[name]
    encoded = encodings(name, LOGARITHMS)
    rows = points.decode(encoded, group)
    assert [host_point(group, rows, i) for i in range(len(rows))] == [group.multiply(k) for k in LOGARITHMS]
    padded = np.concatenate([rows, rows])[:len(rows) // shards() * shards()]
    assert (points.encode(put_sharded(padded), group) == encoded[:len(padded)]).all()


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("bad", ["last bit", "flag", "not below p", "zeros", "dirty infinity"])
def test_the_first_bad_point_is_named(name, bad):
    group, _ = GROUPS[name]
    encoded = encodings(name, LOGARITHMS).copy()
    if bad == "last bit":
        encoded[4, -1] ^= 1
    elif bad == "flag":
        encoded[4, 0] |= 0x80
    elif bad == "not below p":
        x = int.from_bytes(encoded[4, :48].tobytes(), "big") + P
        encoded[4, :48] = np.frombuffer(min(x, 2**384 - 1).to_bytes(48, "big"), np.uint8)
    elif bad == "zeros":
        encoded[4] = 0
    else:
        encoded[4] = encoded[3]
        encoded[4, 50] = 1
    encoded[6, -1] ^= 1
    with pytest.raises(points.BadPoint) as raised:
        points.decode(encoded, group)
    assert raised.value.index == 4


def test_a_bad_point_beyond_the_first_chunk():
    group, _ = GROUPS["g1"]
    encoded = np.repeat(encodings("g1", [9]), points.CHUNK * shards() + 3, axis=0)
    encoded[-2, 95] ^= 4
    with pytest.raises(points.BadPoint) as raised:
        points.decode(encoded, group)
    assert raised.value.index == len(encoded) - 2
