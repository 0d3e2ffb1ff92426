"""Gadgets against the reference's own dumps (fixtures/circuits/gadgets.json), and Merkle gadgets by what they mean."""
import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.circuits import digest, gadgets, poseidon
from cuzk_cli.circuits.columns import unsatisfied
from cuzk_cli.circuits.sha256 import tree_d_hash
from cuzk_cli.circuits.structure import Structure
from cuzk_cli.circuits.template import Builder
from cuzk_cli.protocol.fr import R_ORDER
from cuzk_cli.protocol.poseidon import poseidon_int, tag_merkle

from .plain import alone, check_rows, fr, rows_sha256, run

DUMPS = json.loads((Path(__file__).parents[2] / "fixtures" / "circuits" / "gadgets.json").read_text())
elements_below_r = st.integers(0, R_ORDER - 1)


def bits_from_outside(count: int, table: dict):
    builder = Builder("bits", 0, 0, table)
    for _ in range(count):
        builder.external_bits(1)
    return builder.finish()


def after_inputs(template, n: int, bits: int, table: dict) -> Structure:
    """n elements, then `bits` bits, then the template on (bits, elements)."""
    s = Structure("test", 1, table)
    xs = s.place(gadgets.elements(n, table))
    chosen = s.place(bits_from_outside(bits, table)) if bits else ()
    s.place(template, [*(chosen[i] for i in range(bits)), *(xs[i] for i in range(n))])
    return s.freeze()


def insertion(n: int, table: dict):
    builder = Builder("insert", n.bit_length() - 1, n, table)
    element, *siblings = builder.element_ports
    gadgets.insert(builder, element, siblings, builder.bit_ports)
    return builder.finish()


def build(name: str) -> tuple[Structure, int]:
    """The structure of a dump and its number of bits."""
    what, n = name.split("-")
    n, table = int(n), {}
    bits = n.bit_length() - 1 if what in ("insert", "select") else 0
    template = {"poseidon": lambda: poseidon.poseidon_hash(n, tag_merkle(n), table),
                "treed": lambda: tree_d_hash(table),
                "insert": lambda: insertion(n, table), "select": lambda: gadgets.select(n, table)}[what]()
    return after_inputs(template, n, bits, table), bits


@pytest.mark.parametrize("name", DUMPS)
def test_rows_and_witness_are_the_references(name):
    expected = DUMPS[name]
    structure, bits = build(name)
    n = int(name.split("-")[1])
    assignment, found = run(structure, [fr(f"x {i}") for i in range(n)] + [int(i % 2 == 0) for i in range(bits)])
    assert (structure.n_rows, structure.n_aux) == (expected["constraints"], expected["aux"])
    assert digest.rows_sha256(structure) == expected["rows_sha256"]
    assert digest.witness_sha256(assignment) == expected["witness_sha256"]
    assert found.aux()[-1].to_bytes(32, "little").hex() == expected["result"]
    step = 1 if structure.n_rows < 2000 else 499
    assert check_rows(structure, assignment, range(0, structure.n_rows, step)) == unsatisfied(assignment) == 0


@pytest.mark.parametrize("name", ["insert-8", "poseidon-2"])
def test_serialised_rows_a_term_at_a_time(name):
    structure, _ = build(name)
    assert digest.rows_sha256(structure) == rows_sha256(structure)


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("position", range(8))
def test_insert_and_select_at_every_position(n, position):
    if position >= n:
        return
    count = n.bit_length() - 1
    values = [fr(f"y {i}") for i in range(n)]
    bits = [position >> i & 1 for i in range(count)]
    table: dict = {}
    structure = after_inputs(insertion(n, table), n, count, table)
    assignment, found = run(structure, values + bits)
    placed = values[1:position + 1] + [values[0]] + values[position + 1:]
    if n == 2:
        assert found.aux()[-2:] == placed
    else:
        assert found.aux()[-1] == placed[-1] and set(placed) <= set(found.aux())
    assert check_rows(structure, assignment) == 0
    table = {}
    structure = after_inputs(gadgets.select(n, table), n, count, table)
    assignment, found = run(structure, values + bits)
    assert found.aux()[-1] == values[position] and check_rows(structure, assignment) == 0


@pytest.mark.parametrize("arity", [2, 4, 8])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_merkle_level_is_the_hash_of_the_siblings_in_order(arity, data):
    values = data.draw(st.lists(elements_below_r, min_size=arity, max_size=arity))
    position = data.draw(st.integers(0, arity - 1))
    count, table = arity.bit_length() - 1, {}
    structure = after_inputs(gadgets.merkle_level(arity, tag_merkle(arity), table), arity, count, table)
    assignment, found = run(structure, values + [position >> i & 1 for i in range(count)])
    children = values[1:]
    children.insert(position, values[0])
    assert found.aux()[-1] == poseidon_int(children) and unsatisfied(assignment) == 0


@pytest.mark.parametrize("a,b,bad", [(5, 5, 0), (5, 6, 1), (0, R_ORDER - 1, 1), (R_ORDER - 1, R_ORDER - 1, 0)])
def test_equal_assigns_what_does_not_hold(a, b, bad):
    table: dict = {}
    structure = alone(gadgets.equal(table), table, gadgets.elements(2, table))
    assignment, _ = run(structure, [a, b])
    assert check_rows(structure, assignment) == unsatisfied(assignment) == bad
