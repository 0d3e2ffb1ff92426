"""Boolean gadgets by their truth tables, with every mixture of constants and negations."""
from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from cuzk_cli.circuits.columns import unsatisfied
from cuzk_cli.circuits.template import FALSE, ONE, TRUE, Bit, Builder, combine, packed
from cuzk_cli.protocol.fr import R_ORDER

from .plain import check_rows, one_template, row, run

KINDS = ("zero", "one", "bit", "not")


def operand(builder: Builder, kind: str) -> Bit:
    if kind in ("zero", "one"):
        return TRUE if kind == "one" else FALSE
    bit = builder.external_bits(1)[0]
    return ~bit if kind == "not" else bit


FUNCTIONS = {
    "xor": (2, lambda a, b: a ^ b),
    "both": (2, lambda a, b: a & b),
    "choose": (3, lambda a, b, c: b if a else c),
    "majority": (3, lambda a, b, c: int(a + b + c >= 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_truth_tables(name):
    arity, function = FUNCTIONS[name]
    for kinds in product(KINDS, repeat=arity):
        result = []

        def write(builder):
            out = getattr(builder, name)(*[operand(builder, kind) for kind in kinds])
            result[:] = [out]
            builder.define(combine(out.terms(), {ONE: 4}), {ONE: 1})     # carries the result out as an element

        structure = one_template(write)
        free = [i for i, kind in enumerate(kinds) if kind in ("bit", "not")]
        for values in product((0, 1), repeat=len(free)):
            inputs = [int(kind == "one") for kind in kinds]
            for i, v in zip(free, values):
                inputs[i] = v ^ (kinds[i] == "not")
            assignment, found = run(structure, list(values))
            assert check_rows(structure, assignment) == unsatisfied(assignment) == 0
            assert found.aux()[-1] == 4 + function(*inputs), (kinds, values)
        if not free:
            assert structure.n_rows == 1 and result[0].constant is not None


def test_constants_cost_nothing_and_majority_is_allocated_before_its_product():
    structure = one_template(lambda b: b.majority(*b.external_bits(3)))
    assert (structure.n_rows, structure.n_aux) == (5, 5)
    # the product of the second and third is the last variable: b · c = bc
    aux = 1 << 31
    assert row(structure, 3) == [{aux + 1: 1}, {aux + 2: 1}, {aux + 4: 1}]
    assert row(structure, 4)[2] == {aux + 4: 1, aux + 3: R_ORDER - 1}


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 4), st.integers(-R_ORDER, R_ORDER)), st.integers(-3, 3)),
                max_size=5))
def test_combine(parts):
    expected = {c: sum(scale * terms.get(c, 0) for terms, scale in parts) % R_ORDER for c in range(5)}
    found = combine(*parts)
    assert {c: v % R_ORDER for c, v in found.items()} == {c: v for c, v in expected.items() if v}


def test_negations_in_packing():
    a, b = Bit(1, False), Bit(2, True)
    assert packed([a, TRUE, b, FALSE]) == {1: 1, 2: -4, ONE: 6}
    assert packed([]) == {}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, R_ORDER - 1), st.integers(0, 254))
def test_bits_of_an_element_and_packed_inputs(value, count):
    def write(builder):
        element = builder.external()
        bits = builder.bits_of(element, 255)
        builder.pack_into_input(bits[:count])
        builder.inputize(element)

    structure = one_template(write, inputs=2)
    assignment, found = run(structure, [value])
    assert found.aux() == [value] + [value >> i & 1 for i in range(255)]
    assert found.inputs == [1, value & ((1 << count) - 1), value]
    assert check_rows(structure, assignment) == 0


@given(st.lists(st.integers(0, R_ORDER - 1), min_size=2, max_size=2))
def test_a_definition_solves_for_either_sign(values):
    def write(builder):
        a, b = builder.external(), builder.external()
        builder.define({a: 1, ONE: 5}, {b: 3}, {a: 7}, sign=1)
        builder.define({a: 1}, {b: 1}, {b: 2}, sign=-1)

    structure = one_template(write)
    a, b = values
    assignment, found = run(structure, values)
    assert found.aux()[2:] == [((a + 5) * 3 * b - 7 * a) % R_ORDER, (2 * b - a * b) % R_ORDER]
    assert check_rows(structure, assignment) == 0
