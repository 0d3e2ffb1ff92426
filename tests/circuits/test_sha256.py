"""SHA-256 in constraints against hashlib, for messages with and without constant bits; counts of the TreeD hash."""
import hashlib

import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.circuits import sha256
from cuzk_cli.circuits.columns import unsatisfied
from cuzk_cli.circuits.gadgets import elements
from cuzk_cli.circuits.template import FALSE, ONE, TRUE
from cuzk_cli.protocol.fr import R_ORDER

from .plain import alone, check_rows, fr, one_template, run


def big_endian_bits(data: bytes) -> list[int]:
    return [byte >> (7 - i) & 1 for byte in data for i in range(8)]


@pytest.mark.parametrize("length", [0, 1, 55, 56, 64, 119])
def test_message_of_constants_folds_to_its_digest_without_rows(length):
    message, digest = bytes(range(length)), []
    structure = one_template(lambda b: digest.extend(
        sha256.sha256(b, [TRUE if v else FALSE for v in big_endian_bits(message)])))
    assert (structure.n_rows, structure.n_aux) == (0, 0)
    assert [bit.constant for bit in digest] == [bool(v) for v in big_endian_bits(hashlib.sha256(message).digest())]


@settings(max_examples=6, deadline=None)
@given(st.binary(min_size=1, max_size=70), st.data())
def test_mixture_of_constant_and_variable_bits(message, data):
    bits = big_endian_bits(message)
    seed = data.draw(st.integers(0, 2**32))
    variable = [(fr(f"{seed} {i}") & 3) != 0 for i in range(len(bits))]
    if not any(variable):
        variable[0] = True

    def write(builder):
        mixed = [builder.external_bits(1)[0] if v else (TRUE if bit else FALSE) for bit, v in zip(bits, variable)]
        digest = sha256.sha256(builder, mixed)
        for start in range(0, 256, 128):
            builder.define(sha256.packed(digest[start:start + 128]), {ONE: 1})

    structure = one_template(write)
    assignment, found = run(structure, [bit for bit, v in zip(bits, variable) if v])
    expected = big_endian_bits(hashlib.sha256(message).digest())
    assert found.aux()[-2:] == [sum(bit << i for i, bit in enumerate(expected[s:s + 128])) for s in (0, 128)]
    assert unsatisfied(assignment) == 0
    assert check_rows(structure, assignment, range(0, structure.n_rows, 331)) == 0


@pytest.fixture(scope="module")
def tree_d():
    table: dict = {}
    return alone(sha256.tree_d_hash(table), table, elements(2, table))


def test_counts_of_the_tree_d_hash(tree_d):
    assert (tree_d.n_rows, tree_d.n_aux) == (45379, 45331 + 2)


@pytest.mark.parametrize("pair", [(0, 0), (1, R_ORDER - 1), (R_ORDER - 1, 0), (fr("left"), fr("right"))])
def test_tree_d_hash(tree_d, pair):
    assignment, found = run(tree_d, pair)
    digest = bytearray(hashlib.sha256(b"".join(v.to_bytes(32, "little") for v in pair)).digest())
    digest[31] &= 0x3F
    assert found.aux()[-1] == int.from_bytes(digest, "little")
    assert unsatisfied(assignment) == 0
    assert check_rows(tree_d, assignment, range(0, tree_d.n_rows, 997)) == 0
