"""Digests of a constraint system and of a witness, by which two implementations are compared.

Rows: for every constraint A, B, C in that order, u32 number of terms, then per term u32 column and 32 bytes coefficient,
all little-endian, terms by ascending column. Witness: public inputs (ONE first), then auxiliary variables, 32 bytes each.
"""
from __future__ import annotations

import hashlib
from typing import Iterable

import numpy as np

from .structure import AUX, Structure
from .template import Template
from .witness import Assignment

_TERM = 9       # uint32 words of a term: column, coefficient


class _Serialised:
    """The rows of a template for one order of its ports, patched in place for each placement."""

    def __init__(self, template: Template, coefficients: np.ndarray, port_order: np.ndarray):
        t = template
        counts = np.diff(t.pointers, axis=1)                            # [3, rows]
        group = np.repeat(np.arange(3 * t.rows).reshape(3, t.rows).reshape(-1), counts.reshape(-1))
        matrix, row = np.divmod(group, max(t.rows, 1))
        position = np.arange(1 + t.ports + t.inputs + t.aux)            # sort keys of columns
        rank = np.empty(t.ports, np.int64)
        rank[port_order] = np.arange(t.ports)
        position[1:1 + t.ports] = 1 + rank
        order = np.lexsort((position[t.columns], matrix, row))
        columns, factors = t.columns[order].astype(np.int64), t.coefficients[order]
        sizes = counts.T.reshape(-1)                                    # by row, then matrix
        starts = np.cumsum(1 + _TERM * sizes) - (1 + _TERM * sizes)
        first = np.repeat(starts + 1 - _TERM * (np.cumsum(sizes) - sizes), sizes)
        where = first + _TERM * np.arange(len(columns))
        self.words = np.zeros(int((1 + _TERM * sizes).sum()), np.uint32)
        self.words[starts] = sizes
        self.words[where[:, None] + np.arange(1, _TERM)] = coefficients[factors].view(np.uint32)
        base = 1 + t.ports + t.inputs
        local, own = columns >= base, (columns > t.ports) & (columns < base)
        port = (columns > 0) & (columns <= t.ports)
        self.local = where[local]
        self.local_offset = (columns[local] - base + AUX).astype(np.uint32)
        self.own, self.own_offset = where[own], (columns[own] - t.ports - 1).astype(np.uint32)
        self.port, self.port_number = where[port], columns[port] - 1

    def place(self, aux: int, first_input: int, ports: np.ndarray) -> np.ndarray:
        self.words[self.local] = self.local_offset + np.uint32(aux)
        self.words[self.own] = self.own_offset + np.uint32(first_input)
        self.words[self.port] = ports[self.port_number]
        return self.words


def rows_sha256(structure: Structure) -> str:
    """Over all rows as the circuit emits them, without the appended input rows."""
    digest, cache = hashlib.sha256(), {}
    for p in structure.placements:
        template = structure.templates[p.template]
        ports = structure.port_columns[p.ports:p.ports + template.ports]
        order = np.argsort(ports, kind="stable")
        key = p.template, order.tobytes()
        if key not in cache:
            assert len(set(ports.tolist())) == len(ports)
            cache[key] = _Serialised(template, structure.coefficient_words, order)
        digest.update(cache[key].place(p.aux, p.input, ports))
    return digest.hexdigest()


def witness_sha256(assignment: Assignment) -> str:
    """Over the public inputs and the auxiliary variables."""
    return witness_sha256_of(assignment.inputs, (assignment,))


def witness_sha256_of(inputs: np.ndarray, parts: Iterable[Assignment], chunk: int = 1 << 20) -> str:
    """Of a partition that comes in parts: `inputs` uint64[n_inputs, 4] are the whole partition's, ONE first."""
    digest = hashlib.sha256(np.ascontiguousarray(inputs))
    for part in parts:
        small, index = part.aux_small, part.aux_full_index
        for start in range(0, len(small), chunk):
            few = small[start:start + chunk]
            words = np.zeros((len(few), 4), np.uint64)
            words[:, 0] = few
            lo, hi = np.searchsorted(index, (start, start + len(few)))
            words[index[lo:hi] - start] = part.aux_full[lo:hi]
            digest.update(words)
    return digest.hexdigest()
