"""A small constraint system in plain Python with a satisfying assignment, and its generator without kernels."""
from __future__ import annotations

import random

import numpy as np
from py_arkworks_bls12381 import G1Point, G2Point

from cuzk_cli.circuits.witness import Assignment, RowValues
from cuzk_cli.params.generate import FixedBase
from cuzk_cli.params.points import encode_g1, encode_g2, scalar
from cuzk_cli.protocol.fr import R_ORDER, to_ints, to_words


class SmallCircuit:
    """Rows of three {column: coefficient}, inputs first, then aux; row i makes one aux of earlier variables."""

    def __init__(self, rows: int, n_inputs: int, seed: int = 0):
        rng = random.Random(seed)
        self.name, self.n_inputs, self.rows = "small", n_inputs, []
        values = [1] + [rng.randrange(R_ORDER) for _ in range(n_inputs - 1)]
        for i in range(rows):
            bit = rng.random() < 0.5
            if bit:         # (1 - x) x = 0
                values.append(rng.randrange(2))
                x = len(values) - 1
                self.rows.append(({0: 1, x: R_ORDER - 1}, {x: 1}, {}))
            else:           # (sum) (sum) = x
                a, b = ({rng.randrange(len(values)): rng.choice((1, R_ORDER - 1, rng.randrange(1, R_ORDER)))
                         for _ in range(rng.randrange(1, 4))} for _ in "ab")
                values.append(self.dot(a, values) * self.dot(b, values) % R_ORDER)
                self.rows.append((a, b, {len(values) - 1: 1}))
        self.values = values
        self.n_aux = len(values) - n_inputs
        self.total_rows = rows + n_inputs
        self.log_m = max(self.total_rows - 1, 1).bit_length()
        used = [np.array([any(c in row[m] for row in self.rows) for c in range(len(values))]) for m in range(2)]
        self.a_aux, self.b_input, self.b_aux = used[0][n_inputs:], used[1][:n_inputs], used[1][n_inputs:]

    @staticmethod
    def dot(row: dict, values: list) -> int:
        return sum(k * values[c] for c, k in row.items()) % R_ORDER

    def evaluate(self, lagrange: np.ndarray) -> np.ndarray:
        """Like circuits.columns.evaluate_columns."""
        lagrange = to_ints(lagrange)
        out = [[0] * len(self.values) for _ in range(3)]
        for row, weight in zip(self.rows, lagrange):
            for column, terms in zip(out, row):
                for c, k in terms.items():
                    column[c] += k * weight
        for i in range(self.n_inputs):
            out[0][i] += lagrange[len(self.rows) + i]
        return np.stack([to_words(column) for column in out])

    def row_values(self, matrix: int) -> RowValues:
        """Row values of one matrix, the appended input rows last; small where they fit in a byte."""
        values = [self.dot(row[matrix], self.values) for row in self.rows]
        values += self.values[:self.n_inputs] if matrix == 0 else [0] * self.n_inputs
        signed = [v if v < 128 else v - R_ORDER for v in values]
        wide = [i for i, v in enumerate(signed) if abs(v) > 127]
        small = np.array([v if abs(v) <= 127 else 0 for v in signed], np.int8)
        return RowValues(small, np.array(wide, np.uint32), to_words([values[i] for i in wide]))

    @property
    def assignment(self) -> Assignment:
        aux = self.values[self.n_inputs:]
        small = np.array([v if v < 2 else 2 for v in aux], np.uint8)
        full = np.flatnonzero(small == 2).astype(np.uint32)
        return Assignment(to_words(self.values[:self.n_inputs]), small, full, to_words([aux[i] for i in full]),
                          *(self.row_values(m) for m in range(3)))


def evaluate(structure: SmallCircuit, lagrange: np.ndarray) -> np.ndarray:
    return structure.evaluate(lagrange)


def _multiply(generator, encode):
    def many(words: np.ndarray) -> np.ndarray:
        data = b"".join(encode(generator * scalar(k)) for k in to_ints(words))
        return np.frombuffer(data, np.uint8).reshape(len(words), -1)
    return many


SLOW_FIXED_BASE = FixedBase(_multiply(G1Point(), encode_g1), _multiply(G2Point(), encode_g2), 1000)
