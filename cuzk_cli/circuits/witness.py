"""Run a structure's programs on the data of one partition: the witness and the row values A·z, B·z, C·z.

One compiled loop goes through the placements in order; within a placement the variables live in a small local array
that stays in cache. Bits are bytes, elements are kept canonical and in Montgomery form, row values are small integers
where the template says so and elements elsewhere.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import Exit, fail
from ..protocol.compiled import njit
from ..protocol.fr import ONE as MONT_ONE
from ..protocol.fr import ZERO, add_mod, first_not_below_order, from_mont, load, mont_mul, store, sub_mod, to_mont
from .structure import Structure
from .template import Op, Rows

_XOR, _AND, _CH, _MAJ, _ADD, _BITS, _SOLVE, _EXTERNAL, _EXTERNAL_BITS, _INPUT, _INPUT_PACK, _END = (
    int(op) for op in Op)
_SOLVED, _COPY = int(Rows.SOLVED), int(Rows.COPY)


class RowValues(NamedTuple):
    """The values of one matrix times the assignment, one a row, the appended input rows last."""

    small: np.ndarray       # int8[rows], 0 where the value is wide
    wide_index: np.ndarray  # uint32[w], ascending
    wide: np.ndarray        # uint64[w, 4], canonical words


class Assignment(NamedTuple):
    """One partition's witness and row values."""

    inputs: np.ndarray          # uint64[n_inputs, 4], ONE first
    aux_small: np.ndarray       # uint8[n_aux]: 0, 1, or 2 for "see aux_full"
    aux_full_index: np.ndarray  # uint32[k], ascending
    aux_full: np.ndarray        # uint64[k, 4], canonical words
    a: RowValues
    b: RowValues
    c: RowValues


@njit
def _bit(values, code):
    return values[code >> 1] ^ np.uint8(code & 1)


@njit
def _linear(first, last, columns, coefficients, small, table, values, slots, elements, skip):
    """Σ coefficient · variable over terms first..last-1 but for column `skip`, in Montgomery form."""
    total = ZERO
    for k in range(first, last):
        column = columns[k]
        if column == skip:
            continue
        if slots[column] < 0:
            if values[column]:
                total = add_mod(total, load(table, coefficients[k]))
        elif small[k] == 1:
            total = add_mod(total, load(elements, slots[column]))
        elif small[k] == -1:
            total = sub_mod(total, load(elements, slots[column]))
        else:
            total = add_mod(total, mont_mul(load(elements, slots[column]), load(table, coefficients[k])))
    return total


@njit
def _run(templates, placements, pointers, columns, coefficients, small, wide_rank, mode, bit, program, table,
         port_columns, port_slots, externals, aux_small, elements, canonical,
         small_a, small_b, small_c, wide_a, wide_b, wide_c, longest):
    values, slots = np.zeros(longest, np.uint8), np.full(longest, -1, np.int64)
    values[0] = 1
    for n in range(len(placements)):
        t = placements[n, 0]
        row0, aux0, input0 = placements[n, 1], placements[n, 2], placements[n, 3]
        slot0, ext = placements[n, 4], placements[n, 5]
        port0, wa0, wb0, wc0 = placements[n, 6], placements[n, 7], placements[n, 8], placements[n, 9]
        n_ports, n_inputs, n_rows, n_aux = templates[t, 0], templates[t, 1], templates[t, 2], templates[t, 3]
        p0, k0, f0, w0, m0, b0, pc = (templates[t, 5], templates[t, 6], templates[t, 7], templates[t, 8],
                                      templates[t, 9], templates[t, 10], templates[t, 11])
        cols, coefs, smalls = columns[k0:], coefficients[f0:], small[f0:]
        base = 1 + n_ports + n_inputs
        for i in range(n_ports):
            slots[1 + i] = port_slots[port0 + i]
            if port_slots[port0 + i] < 0:
                values[1 + i] = aux_small[np.int64(port_columns[port0 + i]) - 2147483648]
        for i in range(n_inputs):
            slots[1 + n_ports + i] = input0 + i
        next_slot = slot0
        for i in range(n_aux):
            if bit[b0 + i]:
                slots[base + i] = -1
            else:
                slots[base + i] = next_slot
                next_slot += 1
        # ---- the variables, in order of allocation
        at = base
        while True:
            op = program[pc]
            if op == _XOR:
                values[at] = values[program[pc + 1]] ^ values[program[pc + 2]]
                at += 1
                pc += 3
            elif op == _AND:
                values[at] = _bit(values, program[pc + 1]) & _bit(values, program[pc + 2])
                at += 1
                pc += 3
            elif op == _CH:
                x = _bit(values, program[pc + 1])
                values[at] = (x & _bit(values, program[pc + 2])) | ((x ^ 1) & _bit(values, program[pc + 3]))
                at += 1
                pc += 4
            elif op == _MAJ:
                x, y, z = _bit(values, program[pc + 1]), _bit(values, program[pc + 2]), _bit(values, program[pc + 3])
                values[at] = (x & y) | (x & z) | (y & z)
                at += 1
                pc += 4
            elif op == _ADD:
                count, words = program[pc + 1], program[pc + 2]
                total = np.int64(program[pc + 3]) + (np.int64(program[pc + 4]) << 31)
                pc += 5
                for _ in range(words):
                    word = np.int64(0)
                    for i in range(32):
                        code = program[pc + i]
                        if code >= 0:
                            word |= np.int64(_bit(values, code)) << i
                    total += word
                    pc += 32
                for i in range(count):
                    values[at] = (total >> i) & 1
                    at += 1
            elif op == _BITS:
                slot, count = slots[program[pc + 1]], program[pc + 2]
                for i in range(count):
                    values[at] = (canonical[slot, i >> 6] >> np.uint64(i & 63)) & np.uint64(1)
                    at += 1
                pc += 3
            elif op == _SOLVE:
                r = program[pc + 1]
                pa, pb, pk = p0 + r, p0 + n_rows + 1 + r, p0 + 2 * (n_rows + 1) + r
                a = _linear(pointers[pa], pointers[pa + 1], cols, coefs, smalls, table, values, slots, elements, -1)
                b = _linear(pointers[pb], pointers[pb + 1], cols, coefs, smalls, table, values, slots, elements, -1)
                if b == MONT_ONE:
                    c = a
                elif a == b:
                    c = mont_mul(a, a)
                else:
                    c = mont_mul(a, b)
                rest = _linear(pointers[pk], pointers[pk + 1], cols, coefs, smalls, table, values, slots, elements, at)
                sign = np.int16(1)
                for k in range(pointers[pk], pointers[pk + 1]):
                    if cols[k] == at:
                        sign = smalls[k]
                x = sub_mod(c, rest) if sign == 1 else sub_mod(rest, c)
                store(elements, slots[at], x)
                store(canonical, slots[at], from_mont(x))
                at += 1
                ra, rb, rc = wide_rank[w0 + r], wide_rank[w0 + n_rows + r], wide_rank[w0 + 2 * n_rows + r]
                if ra >= 0:
                    store(wide_a, wa0 + ra, from_mont(a))
                if rb >= 0:
                    store(wide_b, wb0 + rb, from_mont(b))
                if rc >= 0:
                    store(wide_c, wc0 + rc, from_mont(c))
                pc += 2
            elif op == _EXTERNAL:
                x = load(externals, ext)
                ext += 1
                store(canonical, slots[at], x)
                store(elements, slots[at], to_mont(x))
                at += 1
                pc += 1
            elif op == _EXTERNAL_BITS:
                count = program[pc + 1]
                for i in range(count):
                    values[at] = (externals[ext, i >> 6] >> np.uint64(i & 63)) & np.uint64(1)
                    at += 1
                ext += 1
                pc += 2
            elif op == _INPUT:
                slot, to = slots[program[pc + 2]], input0 + program[pc + 1]
                store(canonical, to, load(canonical, slot))
                store(elements, to, load(elements, slot))
                pc += 3
            elif op == _INPUT_PACK:
                to, count = input0 + program[pc + 1], program[pc + 2]
                for i in range(count):
                    canonical[to, i >> 6] |= np.uint64(values[program[pc + 3 + i]]) << np.uint64(i & 63)
                store(elements, to, to_mont(load(canonical, to)))
                pc += 3 + count
            else:
                break
        for i in range(n_aux):
            aux_small[aux0 + i] = values[base + i] if bit[b0 + i] else 2
        # ---- the row values that are not known yet
        for r in range(n_rows):
            how = mode[m0 + r]
            if how == _COPY:
                first, last = pointers[p0 + 2 * (n_rows + 1) + r], pointers[p0 + 2 * (n_rows + 1) + r + 1]
                c = from_mont(_linear(first, last, cols, coefs, smalls, table, values, slots, elements, -1))
                small_b[row0 + r] = 1
                rank = wide_rank[w0 + 2 * n_rows + r]
                if rank >= 0:
                    store(wide_c, wc0 + rank, c)
                else:
                    small_c[row0 + r] = c[0]
                rank = wide_rank[w0 + r]
                if rank >= 0:
                    store(wide_a, wa0 + rank, c)
                else:
                    small_a[row0 + r] = c[0]
                continue
            for m in range(3):
                rank = wide_rank[w0 + m * n_rows + r]
                first, last = pointers[p0 + m * (n_rows + 1) + r], pointers[p0 + m * (n_rows + 1) + r + 1]
                if rank < 0:
                    total = np.int64(0)
                    for k in range(first, last):
                        total += np.int64(smalls[k]) * np.int64(values[cols[k]])
                    if m == 0:
                        small_a[row0 + r] = total
                    elif m == 1:
                        small_b[row0 + r] = total
                    else:
                        small_c[row0 + r] = total
                elif how != _SOLVED:
                    x = from_mont(_linear(first, last, cols, coefs, smalls, table, values, slots, elements, -1))
                    if m == 0:
                        store(wide_a, wa0 + rank, x)
                    elif m == 1:
                        store(wide_b, wb0 + rank, x)
                    else:
                        store(wide_c, wc0 + rank, x)


def assign(structure: Structure, externals: np.ndarray) -> Assignment:
    """The assignment of one partition.

    externals: uint64[n_external, 4], the elements that the circuit takes from outside, in order of allocation.
    What does not satisfy the circuit is assigned all the same. Raises CuzkError (INPUT) for a value that is no field
    element, for which the circuit has no assignment.
    """
    s, f = structure, structure.flat
    assert externals.shape == (s.n_external, 4)
    externals = np.ascontiguousarray(externals, np.uint64)
    bad = first_not_below_order(externals)
    if bad >= 0:
        raise fail(Exit.INPUT, f"synthesise {s.name}", None, "elements below the order of the scalar field",
                   f"{externals[bad].tobytes().hex()} as element {bad}")
    total = s.total_rows
    aux_small = np.empty(s.n_aux, np.uint8)
    elements, canonical = np.zeros((s.n_slots, 4), np.uint64), np.zeros((s.n_slots, 4), np.uint64)
    canonical[0, 0] = 1
    elements[0] = MONT_ONE
    small = [np.zeros(total, np.int8) for _ in range(3)]
    wide = [np.zeros((n + (s.n_inputs if m == 0 else 0), 4), np.uint64) for m, n in enumerate(s.n_wide)]
    longest = 1 + max(t.ports + t.inputs + t.aux for t in s.templates)
    _run(s.template_table, s.placement_table, f["pointers"], f["columns"], f["coefficients"], f["small"], f["wide"],
         f["mode"], f["bit"], f["program"], s.montgomery_table, s.port_columns, s.port_slots,
         externals, aux_small, elements, canonical, *small, *wide, longest)
    wide[0][s.n_wide[0]:] = canonical[:s.n_inputs]
    rows = [RowValues(small[m], s.wide_index(m), wide[m]) for m in range(3)]
    return Assignment(canonical[:s.n_inputs], aux_small, s.full_index, canonical[s.n_inputs:], *rows)
