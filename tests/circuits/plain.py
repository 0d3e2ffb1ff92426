"""A structure and its assignment in plain Python integers: the oracle of everything that is compiled or vectorised."""
from __future__ import annotations

import bisect
import hashlib
import struct

import numpy as np

from cuzk_cli.circuits.structure import AUX, Structure
from cuzk_cli.circuits.template import Builder, Template
from cuzk_cli.circuits.witness import Assignment, RowValues, assign
from cuzk_cli.protocol.fr import R_ORDER, to_ints, to_words

R = R_ORDER


def fr(label: str) -> int:
    """The reference's test inputs: SHA-256 of the label with the top two bits cleared."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest(), "little") & ((1 << 254) - 1)


def alone(template: Template, coefficients: dict, before: Template | None = None) -> Structure:
    """A structure of one template; its ports are the variables of `before`."""
    s = Structure("test", 1 + template.inputs, coefficients)
    first = s.place(before) if before is not None else ()
    s.place(template, [first[i] for i in range(template.ports)])
    return s.freeze()


def one_template(write, inputs: int = 0, name: str = "test") -> Structure:
    """The structure of a template without ports that `write(builder)` fills."""
    table: dict = {}
    builder = Builder(name, 0, 0, table, inputs=inputs)
    write(builder)
    return alone(builder.finish(), table)


def row(structure: Structure, index: int) -> list[dict]:
    """A, B and C of one constraint as {column: coefficient}, columns as bellperson numbers them."""
    bases = [p.row for p in structure.placements]
    p = structure.placements[bisect.bisect_right(bases, index) - 1]
    while p.row + structure.templates[p.template].rows <= index:       # placements without rows share a base
        p = structure.placements[structure.placements.index(p) - 1]
    t = structure.templates[p.template]
    coefficients = to_ints(structure.coefficient_words)

    def column(local: int) -> int:
        if local == 0:
            return 0
        if local <= t.ports:
            return int(structure.port_columns[p.ports + local - 1])
        if local <= t.ports + t.inputs:
            return p.input + local - t.ports - 1
        return AUX + p.aux + local - 1 - t.ports - t.inputs

    out = []
    for m in range(3):
        terms: dict = {}
        for k in range(t.pointers[m, index - p.row], t.pointers[m, index - p.row + 1]):
            c = column(int(t.columns[k]))
            terms[c] = (terms.get(c, 0) + coefficients[t.coefficients[k]]) % R
        out.append(terms)
    return out


def rows_sha256(structure: Structure) -> str:
    """The digest of all rows, a term at a time."""
    digest = hashlib.sha256()
    for r in range(structure.n_rows):
        for terms in row(structure, r):
            terms = {c: v for c, v in terms.items() if v}
            digest.update(struct.pack("<I", len(terms)))
            for c in sorted(terms):
                digest.update(struct.pack("<I", c) + terms[c].to_bytes(32, "little"))
    return digest.hexdigest()


class Values:
    """The value of every column of an assignment."""

    def __init__(self, assignment: Assignment):
        self.inputs = to_ints(assignment.inputs)
        self.small = assignment.aux_small
        self.full = dict(zip(assignment.aux_full_index.tolist(), to_ints(assignment.aux_full)))

    def __getitem__(self, column: int) -> int:
        if column < AUX:
            return self.inputs[column]
        i = column - AUX
        return self.full[i] if self.small[i] == 2 else int(self.small[i])

    def aux(self) -> list[int]:
        return [self[AUX + i] for i in range(len(self.small))]

    def dot(self, terms: dict) -> int:
        return sum(v * self[c] for c, v in terms.items()) % R


def expand(rows: RowValues) -> list[int]:
    """Row values as integers mod r."""
    out = [int(v) % R for v in rows.small]
    for i, v in zip(rows.wide_index.tolist(), to_ints(rows.wide)):
        assert out[i] == 0
        out[i] = v
    return out


def check_rows(structure: Structure, assignment: Assignment, chosen=None) -> int:
    """Row values are the dot products of rows and assignment. Returns the number of rows that do not hold."""
    values = Values(assignment)
    found = [expand(m) for m in (assignment.a, assignment.b, assignment.c)]
    assert all(len(m) == structure.total_rows for m in found)
    bad = 0
    for r in range(structure.n_rows) if chosen is None else chosen:
        expected = [values.dot(terms) for terms in row(structure, r)]
        assert [m[r] for m in found] == expected, r
        bad += (expected[0] * expected[1] - expected[2]) % R != 0
    appended = slice(structure.n_rows, None)
    assert found[0][appended] == values.inputs and not any(found[1][appended]) and not any(found[2][appended])
    return bad


def run(structure: Structure, externals) -> tuple[Assignment, Values]:
    """Assign, with externals as integers."""
    words = to_words(externals) if len(externals) else np.zeros((0, 4), np.uint64)
    assignment = assign(structure, words)
    return assignment, Values(assignment)
