"""Public inputs from a file, in every form that we print."""
import json

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.fr import R_ORDER, to_ints
from cuzk_cli.prove import inputs

A, B = [5, R_ORDER - 1], [0, 7]
TEXT = lambda values: [value.to_bytes(32, "little").hex() for value in values]


def read(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return inputs.Request("window", "2KiB", data).public()


@pytest.mark.parametrize("value, partitions, rows", [
    (A, [0], [A]), (TEXT(A), [0], [A]), ([TEXT(A), B], [0, 1], [A, B]),
    ({"public_inputs": [TEXT(A), TEXT(B)], "partitions": [3, 5]}, [3, 5], [A, B]),
    ({"public_inputs": [A, B], "partitions": [{"partition": 0}]}, [0, 1], [A, B]),
    ({"results": [{"public_inputs": [A]}]}, [0], [A]),
    ({"partitions": [{"partition": 2, "public_inputs": TEXT(A)}, {"partition": 4, "public_inputs": B}]}, [2, 4],
     [A, B]),
    ({"proofs": [{"partition": 0, "public_inputs": ["0x" + TEXT(A)[0]]}]}, [0], [A[:1]])])
def test_forms(value, partitions, rows):
    found = read(value)
    assert found.partitions == partitions
    assert [to_ints(found.public_inputs(k)) for k in partitions] == rows


@pytest.mark.parametrize("value", [
    b"", b"x", b"[" * 100000, {}, [], [[]], [1.5], [True], [None], ["ab"], ["g" * 64], [-1], [R_ORDER], ["ff" * 32],
    [A, 3], {"public_inputs": 3}, {"partitions": [1]}, {"partitions": []}, {"results": [3]}, 7, "x"])
def test_what_is_refused(value):
    with pytest.raises(CuzkError) as raised:
        read(value)
    assert raised.value.exit == Exit.INPUT
