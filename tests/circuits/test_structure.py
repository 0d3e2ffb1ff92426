"""A structure of many placements: counts, densities, column sums and digests against plain Python."""
import random

import numpy as np
import pytest

from cuzk_cli.circuits import columns, digest, gadgets
from cuzk_cli.circuits.poseidon import poseidon_hash
from cuzk_cli.circuits.structure import AUX, Structure
from cuzk_cli.circuits.template import ONE, Builder
from cuzk_cli.circuits.witness import RowValues, assign
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.fr import R_ORDER, to_ints, to_words

from .plain import check_rows, expand, row, rows_sha256, run
from .test_gadgets import bits_from_outside

RANDOM_TAG = 77


def mixture() -> Structure:
    """Inputs in the middle, ports that are inputs' sources, bits and elements, in ascending and descending order."""
    table: dict = {}
    hash_pair, level = poseidon_hash(2, RANDOM_TAG, table), gadgets.merkle_level(4, 15, table)
    equal, public = gadgets.equal(table), gadgets.public_element(table)
    builder = Builder("glue", 2, 1, table, inputs=2)
    builder.pack_into_input([builder.bit_ports[1], builder.bit_ports[0]])
    far = builder.define({builder.element_ports[0]: R_ORDER // 3, ONE: -9}, {builder.element_ports[0]: -1, ONE: 40_000})
    builder.inputize(far)
    builder.enforce({}, {}, {far: 0x1_0000, builder.bit_ports[0].column: 5})     # empty A and B; does not hold
    glue = builder.finish()

    s = Structure("mixture", 6, table)
    xs = s.place(gadgets.elements(5, table))
    s.place(public)
    bits = s.place(bits_from_outside(4, table))
    up = s.place(hash_pair, (xs[0], xs[1]))[-1]
    down = s.place(hash_pair, (xs[4], xs[2]))[-1]
    s.place(glue, (bits[3], bits[0], down))
    top = s.place(level, (bits[2], bits[1], up, xs[3], down, xs[0]))[-1]
    s.place(equal, (top, up))
    s.place(glue, (bits[0], bits[1], top))
    return s.freeze()


@pytest.fixture(scope="module")
def structure():
    return mixture()


@pytest.fixture(scope="module")
def rows(structure):
    return [row(structure, r) for r in range(structure.n_rows)]


def externals(seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(R_ORDER) for _ in range(6)] + [rng.randrange(2) for _ in range(4)]


@pytest.mark.parametrize("seed", range(3))
def test_row_values_and_the_count_of_those_that_do_not_hold(structure, seed):
    assignment, _ = run(structure, externals(seed))
    assert check_rows(structure, assignment) == columns.unsatisfied(assignment) > 0


def test_counts(structure, rows):
    assert structure.terms() == [sum(len(r[m]) for r in rows) for m in range(3)]
    assert structure.total_rows == structure.n_rows + 6 and structure.log_m == (structure.total_rows - 1).bit_length()


def test_densities(structure, rows):
    used = [{c for r in rows for c, v in r[m].items() if v} for m in range(2)]
    for m, found in ((0, structure.a_aux), (1, structure.b_aux)):
        assert found.dtype == bool and np.flatnonzero(found).tolist() == sorted(c - AUX for c in used[m] if c >= AUX)
    assert np.flatnonzero(structure.b_input).tolist() == sorted(c for c in used[1] if c < AUX)


def test_digest_of_rows_a_term_at_a_time(structure):
    assert digest.rows_sha256(structure) == rows_sha256(structure)


def test_column_sums(structure, rows):
    rng = random.Random(4)
    lagrange = [rng.choice((0, 1, R_ORDER - 1, rng.randrange(R_ORDER))) for _ in range(structure.total_rows)]
    found = columns.evaluate_columns(structure, to_words(lagrange))
    assert found.shape == (3, structure.n_inputs + structure.n_aux, 4) and found.dtype == np.uint64
    place = lambda c: c if c < AUX else c - AUX + structure.n_inputs
    for m in range(3):
        expected = [0] * found.shape[1]
        for weight, r in zip(lagrange, rows):
            for c, v in r[m].items():
                expected[place(c)] += v * weight
        for i in range(structure.n_inputs if m == 0 else 0):
            expected[i] += lagrange[structure.n_rows + i]
        assert to_ints(found[m]) == [v % R_ORDER for v in expected]


def test_assignment_is_compact_and_ascending(structure):
    assignment, _ = run(structure, externals(0))
    index = assignment.aux_full_index
    assert index.dtype == np.uint32 and (np.diff(index.astype(np.int64)) > 0).all()
    assert (np.flatnonzero(assignment.aux_small == 2) == index).all() and len(assignment.aux_full) == len(index)
    for values in (assignment.a, assignment.b, assignment.c):
        assert values.small.dtype == np.int8 and values.wide_index.dtype == np.uint32
        assert (np.diff(values.wide_index.astype(np.int64)) > 0).all() and len(values.wide) == len(values.wide_index)


def test_unsatisfied_rows_are_counted_in_every_representation(structure):
    assignment, _ = run(structure, externals(1))
    before = columns.unsatisfied(assignment)
    values = [expand(m) for m in (assignment.a, assignment.b, assignment.c)]
    holds = [r for r in range(structure.n_rows) if (values[0][r] * values[1][r] - values[2][r]) % R_ORDER == 0]
    wide = set(assignment.c.wide_index.tolist())
    for r in ([r for r in holds if r in wide][:5] + [r for r in holds if r not in wide][:5]):
        small, words = assignment.c.small.copy(), assignment.c.wide.copy()
        if r in wide:
            words[assignment.c.wide_index.tolist().index(r), 0] ^= np.uint64(1)
        else:
            small[r] += 1
        changed = assignment._replace(c=RowValues(small, assignment.c.wide_index, words))
        assert columns.unsatisfied(changed) == before + 1


@pytest.mark.parametrize("value", [R_ORDER, 2**256 - 1])
def test_refuses_what_is_no_element(structure, value):
    words = to_words(externals(0))
    words[3] = np.frombuffer(value.to_bytes(32, "little"), np.uint64)
    with pytest.raises(CuzkError) as caught:
        assign(structure, words)
    assert caught.value.exit == Exit.INPUT and "element 3" in str(caught.value)
