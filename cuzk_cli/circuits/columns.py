"""Sums over the columns of A, B and C: what parameter generation needs of a structure, and checks on row values."""
from __future__ import annotations

import numpy as np

from ..protocol.compiled import njit
from ..protocol.fr import (
    ZERO, add_mod, from_mont, from_mont_rows, load, mont_mul, store, sub_mod, to_mont, to_mont_rows)
from .structure import Structure
from .witness import Assignment


@njit
def _accumulate(templates, placements, pointers, columns, coefficients, small, table, port_columns, n_inputs,
                lagrange, outs):
    for n in range(len(placements)):
        t = placements[n, 0]
        row0, aux0, input0, port0 = placements[n, 1], placements[n, 2], placements[n, 3], placements[n, 6]
        n_ports, own_inputs, n_rows = templates[t, 0], templates[t, 1], templates[t, 2]
        p0, k0, f0 = templates[t, 5], templates[t, 6], templates[t, 7]
        base = 1 + n_ports + own_inputs
        for m in range(3):
            out = outs[m]
            for r in range(n_rows):
                weight = load(lagrange, row0 + r)
                for k in range(pointers[p0 + m * (n_rows + 1) + r], pointers[p0 + m * (n_rows + 1) + r + 1]):
                    column = columns[k0 + k]
                    if column >= base:
                        to = n_inputs + aux0 + column - base
                    elif column > n_ports:
                        to = input0 + column - n_ports - 1
                    elif column > 0:
                        to = np.int64(port_columns[port0 + column - 1])
                        if to >= 2147483648:
                            to += n_inputs - 2147483648
                    else:
                        to = 0
                    factor = small[f0 + k]
                    if factor == 1:
                        value = add_mod(load(out, to), weight)
                    elif factor == -1:
                        value = sub_mod(load(out, to), weight)
                    else:
                        value = add_mod(load(out, to), mont_mul(weight, load(table, coefficients[f0 + k])))
                    store(out, to, value)


def evaluate_columns(structure: Structure, lagrange: np.ndarray) -> np.ndarray:
    """u_j, v_j, w_j: for every column j of A, B and C the sum of coefficient · lagrange[row].

    lagrange: uint64[total_rows, 4] canonical words, the appended input rows last (A = input_i).
    Returns uint64[3, n_inputs + n_aux, 4], canonical words. Source: bellperson groth16/generator.rs.
    """
    s, f = structure, structure.flat
    weights = to_mont_rows(np.ascontiguousarray(lagrange))
    outs = np.zeros((3, s.n_inputs + s.n_aux, 4), np.uint64)
    _accumulate(s.template_table, s.placement_table, f["pointers"], f["columns"], f["coefficients"], f["small"],
                s.montgomery_table, s.port_columns, s.n_inputs, weights, outs)
    _add_rows(outs[0], weights[s.n_rows:s.total_rows])
    return np.stack([from_mont_rows(out) for out in outs])


@njit
def _add_rows(out, rows):
    for i in range(len(rows)):
        store(out, i, add_mod(load(out, i), load(rows, i)))


@njit
def _value(small, wide, row, at):
    if at >= 0:
        return to_mont(load(wide, at))
    value = np.int64(small[row])
    magnitude = to_mont((np.uint64(abs(value)), np.uint64(0), np.uint64(0), np.uint64(0)))
    return magnitude if value >= 0 else sub_mod(ZERO, magnitude)


@njit
def _count(rows, small_a, index_a, wide_a, small_b, index_b, wide_b, small_c, index_c, wide_c):
    bad, a, b, c = 0, 0, 0, 0
    for r in range(rows):
        at_a = a if a < len(index_a) and index_a[a] == r else -1
        at_b = b if b < len(index_b) and index_b[b] == r else -1
        at_c = c if c < len(index_c) and index_c[c] == r else -1
        a, b, c = a + (at_a >= 0), b + (at_b >= 0), c + (at_c >= 0)
        if at_a < 0 and at_b < 0 and at_c < 0:
            bad += np.int64(small_a[r]) * np.int64(small_b[r]) != np.int64(small_c[r])
        else:
            product = mont_mul(_value(small_a, wide_a, r, at_a), _value(small_b, wide_b, r, at_b))
            bad += product != _value(small_c, wide_c, r, at_c)
    return bad


def unsatisfied(assignment: Assignment) -> int:
    """Number of rows with A·z times B·z not equal to C·z."""
    a, b, c = assignment.a, assignment.b, assignment.c
    return int(_count(len(a.small), a.small, a.wide_index, a.wide, b.small, b.wide_index, b.wide,
                      c.small, c.wide_index, c.wide))
