"""A gadget, built once: its constraints, the order in which it allocates, and how its variables are computed.

Columns of a template, in this order: ONE (0), its ports (variables that exist before it), the public inputs that it
allocates, the auxiliary variables that it allocates. A linear combination is a dict {column: coefficient};
coefficients are integers mod r. Every auxiliary variable is a *bit* or an *element*, which is decided here, once, for all witnesses.

The allocating calls also record a straight-line program, one step a call, that computes the variables in order of
allocation: structure and witness cannot disagree.
"""
from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ..protocol.fr import R_ORDER, to_words

ONE = 0
SMALL = 127         # |row value| that fits the int8 of a small row


class Op(IntEnum):
    """Steps of a template's program; operands follow as int32."""

    XOR = 0         # a b                   columns of bits
    AND = 1         # a b                   2*column + negated
    CH = 2          # a b c                 2*column + negated
    MAJ = 3         # a b c                 2*column + negated
    ADD = 4         # bits words low high then 32 operands a word: 2*column + negated, or -1 for zero
    BITS = 5        # column n              bits 0..n-1 of an element
    SOLVE = 6       # row                   the element that row defines
    EXTERNAL = 7    #                       the next element given from outside
    EXTERNAL_BITS = 8   # n                 bits 0..n-1 of the next element given from outside, which is no variable
    INPUT = 9       # input column          value of an element
    INPUT_PACK = 10 # input n columns       packed bits
    END = 11


class Rows(IntEnum):
    """How the values of a row follow."""

    EVALUATE = 0    # A, B, C each from its terms
    SOLVED = 1      # A and B from their terms while the variable that the row defines was solved; C = A*B
    COPY = 2        # C from its terms, A = C, B = 1 (an identity of the gadget)


class Bit(NamedTuple):
    """A boolean: a constant (column None), a bit, or the negation of one."""

    column: int | None
    negated: bool       # for a constant: its value

    def __invert__(self) -> "Bit":
        return Bit(self.column, not self.negated)

    @property
    def constant(self) -> bool | None:
        return self.negated if self.column is None else None

    @property
    def code(self) -> int:
        return 2 * self.column + self.negated

    def terms(self, scale: int = 1) -> dict:
        """scale * this bit as a linear combination."""
        if self.column is None:
            return {ONE: scale} if self.negated else {}
        return {ONE: scale, self.column: -scale} if self.negated else {self.column: scale}


FALSE, TRUE = Bit(None, False), Bit(None, True)


def combine(*parts) -> dict:
    """Sum of linear combinations; a part is a dict or a pair (dict, scale). Zero terms stay out."""
    total: dict = {}
    for part in parts:
        terms, scale = part if isinstance(part, tuple) else (part, 1)
        for column, value in terms.items():
            total[column] = total.get(column, 0) + scale * value
    return {column: value for column, value in total.items() if value % R_ORDER}


class Template(NamedTuple):
    """A finished gadget as arrays.

    pointers int64[3, rows + 1], columns int32[nnz], coefficients int32[nnz] (indices into the structure's table),
    matrix m's terms of row r are pointers[m, r]..pointers[m, r + 1]; terms stand in ascending order of columns.
    wide bool[3, rows]: row values that need a field element; mode uint8[rows]: Rows; bit bool[aux]; program int32[].
    """

    name: str
    ports: int
    inputs: int
    rows: int
    aux: int
    externals: int
    pointers: np.ndarray
    columns: np.ndarray
    coefficients: np.ndarray
    wide: np.ndarray
    mode: np.ndarray
    bit: np.ndarray
    program: np.ndarray


class Builder:
    """Writes one template. `coefficients` is the table shared by all templates of a structure."""

    def __init__(self, name: str, bit_ports: int, element_ports: int, coefficients: dict, inputs: int = 0):
        self.name, self.ports, self.inputs, self._table = name, bit_ports + element_ports, inputs, coefficients
        self.bit_ports = [Bit(1 + i, False) for i in range(bit_ports)]
        self.element_ports = [1 + bit_ports + i for i in range(element_ports)]
        self._input_base = 1 + self.ports
        self._base = self._input_base + inputs
        self._is_bit = [True] + [True] * bit_ports + [False] * (element_ports + inputs)
        self._rows: list = []
        self._mode: list = []
        self._program: list = []
        self.externals = self._inputs_used = 0

    # ---- allocation
    def _allocate(self, bit: bool, *step) -> int:
        self._is_bit.append(bit)
        self._program += step
        return len(self._is_bit) - 1

    def external(self) -> int:
        """An element given with the witness."""
        self.externals += 1
        return self._allocate(False, Op.EXTERNAL)

    def enforce(self, a: dict, b: dict, c: dict, mode: Rows = Rows.EVALUATE) -> None:
        """A · B = C."""
        self._rows.append((a, b, c))
        self._mode.append(mode)

    def define(self, a: dict, b: dict, rest: dict | None = None, sign: int = 1) -> int:
        """A new element x with A · B = sign·x + rest, and that row."""
        x = self._allocate(False, Op.SOLVE, len(self._rows))
        self.enforce(a, b, combine({x: sign}, rest or {}), Rows.SOLVED)
        return x

    def boolean_row(self, column: int) -> None:
        """(1 − b) · b = 0."""
        self.enforce({ONE: 1, column: -1}, {column: 1}, {})

    def bits_of(self, element: int, count: int) -> list[Bit]:
        """The lowest bits of an element, each a new bit with its row, least significant first."""
        self._program += (Op.BITS, element, count)
        return self._new_bits(count)

    def external_bits(self, count: int) -> list[Bit]:
        """The lowest bits of an integer given with the witness, as `bits_of`; the integer itself is no variable."""
        self.externals += 1
        self._program += (Op.EXTERNAL_BITS, count)
        return self._new_bits(count)

    def _new_bits(self, count: int) -> list[Bit]:
        bits = []
        for _ in range(count):
            self._is_bit.append(True)
            bits.append(Bit(len(self._is_bit) - 1, False))
            self.boolean_row(bits[-1].column)
        return bits

    def inputize(self, element: int) -> None:
        """A new public input x; x · 1 = element."""
        x = self._next_input()
        self._program += (Op.INPUT, self._inputs_used - 1, element)
        self.enforce({x: 1}, {ONE: 1}, {element: 1})

    def pack_into_input(self, bits: list[Bit]) -> None:
        """A new public input x; Σ 2^i b_i · 1 = x."""
        x = self._next_input()
        self._program += (Op.INPUT_PACK, self._inputs_used - 1, len(bits), *[b.column for b in bits])
        self.enforce(packed(bits), {ONE: 1}, {x: 1})

    def _next_input(self) -> int:
        self._inputs_used += 1
        return self._input_base + self._inputs_used - 1

    # ---- booleans, as bellpepper-core gadgets/boolean.rs
    def xor(self, a: Bit, b: Bit) -> Bit:
        for x, y in ((a, b), (b, a)):
            if x.constant is not None:
                return ~y if x.constant else y
        c = self._allocate(True, Op.XOR, a.column, b.column)
        self.enforce({a.column: 2}, {b.column: 1}, combine({a.column: 1}, {b.column: 1}, {c: -1}))
        return Bit(c, a.negated != b.negated)

    def both(self, a: Bit, b: Bit) -> Bit:
        """AND. With two bits: a·b = c, a·(1 − b) = c or (1 − a)·(1 − b) = c."""
        for x, y in ((a, b), (b, a)):
            if x.constant is not None:
                return y if x.constant else FALSE
        if a.negated and not b.negated:
            a, b = b, a
        c = self._allocate(True, Op.AND, a.code, b.code)
        self.enforce(a.terms(), b.terms(), {c: 1})
        return Bit(c, False)

    def choose(self, a: Bit, b: Bit, c: Bit) -> Bit:
        """SHA-256's ch: a ? b : c (boolean.rs, sha256_ch; the tests are made in this order)."""
        if None not in (a.constant, b.constant, c.constant):
            return b if a.constant else c
        if a.constant is False:
            return c
        if b.constant is False:
            return self.both(~a, c)
        if c.constant is False:
            return self.both(a, b)
        if c.constant is True:
            return ~self.both(a, ~b)
        if b.constant is True:
            return ~self.both(~a, ~c)
        x = self._allocate(True, Op.CH, _code(a), b.code, c.code)
        self.enforce(combine(b.terms(), (c.terms(), -1)), a.terms(), combine({x: 1}, (c.terms(), -1)))
        return Bit(x, False)

    def majority(self, a: Bit, b: Bit, c: Bit) -> Bit:
        """SHA-256's maj (boolean.rs, sha256_maj): maj is allocated before b ∧ c."""
        if None not in (a.constant, b.constant, c.constant):
            return TRUE if a.constant + b.constant + c.constant >= 2 else FALSE
        if a.constant is False:
            return self.both(b, c)
        if b.constant is False:
            return self.both(a, c)
        if c.constant is False:
            return self.both(a, b)
        if c.constant is True:
            return ~self.both(~a, ~b)
        if b.constant is True:
            return ~self.both(~a, ~c)
        if a.constant is True:
            return ~self.both(~b, ~c)
        x = self._allocate(True, Op.MAJ, a.code, b.code, c.code)
        bc = self.both(b, c)
        self.enforce(combine((bc.terms(), 2), (b.terms(), -1), (c.terms(), -1)), a.terms(),
                     combine(bc.terms(), {x: -1}))
        return Bit(x, False)

    def sum_bits(self, words: list[list[Bit]], count: int) -> list[Bit]:
        """`count` new bits of the sum of 32-bit words (least significant bit first), each with its row."""
        constant, operands = 0, []
        for word in words:
            codes = []
            for i, bit in enumerate(word):
                if bit.constant is not None:
                    constant += bit.constant << i
                codes.append(-1 if bit.column is None else bit.code)
            if any(code >= 0 for code in codes):
                operands.append(codes)
        low, high = constant & 0x7FFFFFFF, constant >> 31
        self._program += (Op.ADD, count, len(operands), low, high, *[code for codes in operands for code in codes])
        return self._new_bits(count)

    # ---- the end
    def finish(self) -> Template:
        """Freeze: sort terms, intern coefficients, classify row values."""
        assert self._inputs_used == self.inputs
        rows, nnz = len(self._rows), 0
        pointers, columns, coefficients = np.zeros((3, rows + 1), np.int64), [], []
        wide = np.zeros((3, rows), bool)
        for m in range(3):
            for r, row in enumerate(self._rows):
                size = 0
                for column in sorted(row[m]):
                    value = row[m][column]
                    columns.append(column)
                    coefficients.append(self._table.setdefault(value % R_ORDER, len(self._table)))
                    size += abs(value) if self._is_bit[column] else SMALL + 1
                wide[m, r] = size > SMALL
                nnz += len(row[m])
                pointers[m, r + 1] = nnz
            if m < 2:
                pointers[m + 1, 0] = nnz
        bit = np.array(self._is_bit[self._base:], bool)
        return Template(
            self.name, self.ports, self.inputs, rows, len(bit), self.externals, pointers,
            np.array(columns, np.int32), np.array(coefficients, np.int32), wide,
            np.array(self._mode, np.uint8), bit, np.array([*self._program, Op.END], np.int32))


def _code(bit: Bit) -> int:
    """Operand of a bit that may be the constant one, as columns know it."""
    return 2 * ONE + (not bit.constant) if bit.column is None else bit.code


def packed(bits: list[Bit]) -> dict:
    """Σ 2^i b_i."""
    return combine(*[(bit.terms(), 1 << i) for i, bit in enumerate(bits)])


def coefficient_words(table: dict) -> np.ndarray:
    """The interned coefficients, in order of their indices, as words uint64[n, 4]."""
    return to_words(table)
