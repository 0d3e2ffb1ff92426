"""A whole constraint system as templates and placements, all in flat arrays.

Variables are numbered as bellperson numbers them: column i for public input i (0 is ONE), 2^31 + i for auxiliary
variable i.
Row and variable order is the order of placement, so that every placement is one contiguous range of rows and variables.
"""
from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..protocol.fr import R_ORDER, to_mont_rows
from .template import Template, coefficient_words

AUX = 1 << 31       # columns of auxiliary variables start here


class Variable(NamedTuple):
    """A variable of the constraint system: its column, and the slot of its value if it is an element (-1: a bit)."""

    column: int
    slot: int


class Placed(NamedTuple):
    """One template in its place."""

    template: int       # index
    row: int            # first row
    aux: int            # first auxiliary variable
    input: int          # first public input
    slot: int           # first slot of its own elements
    external: int       # first external element
    ports: int          # first entry in the flat arrays of ports
    wide: tuple         # first wide value in each of A, B, C


class Structure:
    """Append placements with `place`, then `freeze`. Slots hold the values of elements: public inputs first."""

    def __init__(self, name: str, inputs: int, coefficients: dict):
        self.name, self.n_inputs, self._coefficients = name, inputs, coefficients
        self.templates: list[Template] = []
        self._index: dict[int, int] = {}
        self._ranks: list[np.ndarray] = []
        self.placements: list[Placed] = []
        self._ports: list[np.ndarray] = []
        self.n_ports = self.n_rows = self.n_aux = self.n_external = 0
        self._next_input, self._next_slot, self._wide = 1, inputs, [0, 0, 0]

    def place(self, template: Template, ports=()) -> "Instance":
        """Append one instance; `ports` are Variables in the template's order (bits, then elements), or int64[n, 2]."""
        ports = np.asarray(ports, np.int64).reshape(-1, 2)
        assert len(ports) == template.ports, (template.name, len(ports))
        key = id(template)
        if key not in self._index:
            self._index[key] = len(self.templates)
            self.templates.append(template)
            self._ranks.append(np.where(template.bit, -1, np.cumsum(~template.bit) - 1))
        index = self._index[key]
        placed = Placed(index, self.n_rows, self.n_aux, self._next_input, self._next_slot, self.n_external,
                        self.n_ports, tuple(self._wide))
        self.placements.append(placed)
        self._ports.append(ports)
        self.n_ports += template.ports
        self.n_rows += template.rows
        self.n_aux += template.aux
        self.n_external += template.externals
        self._next_input += template.inputs
        self._next_slot += int((~template.bit).sum())
        for m in range(3):
            self._wide[m] += int(template.wide[m].sum())
        return Instance(placed.aux, placed.slot, self._ranks[index])

    def freeze(self) -> "Structure":
        """Check the counts and lay everything out for the compiled loops."""
        assert self._next_input == self.n_inputs, (self._next_input, self.n_inputs)
        ports = np.concatenate(self._ports)
        self.port_columns, self.port_slots = ports[:, 0].astype(np.uint32), ports[:, 1].copy()
        self.coefficient_words = coefficient_words(self._coefficients)
        self.montgomery_table = to_mont_rows(self.coefficient_words)
        self.n_slots = self._next_slot
        self.n_wide = tuple(self._wide)
        names = ("pointers", "columns", "coefficients", "wide", "mode", "bit", "program")
        starts, flat = [], {name: [] for name in names}
        sizes = dict.fromkeys(flat, 0)
        for t in self.templates:
            starts.append([t.ports, t.inputs, t.rows, t.aux, t.externals,
                           *(sizes[name] for name in flat)])
            for name in flat:
                array = getattr(t, name)
                if name == "wide":      # rank of a wide row value among its template's, -1 for a small one
                    array = np.where(array, np.cumsum(array, axis=1) - 1, -1).astype(np.int32)
                flat[name].append(array.reshape(-1))
                sizes[name] += array.size
        self.template_table = np.array(starts, np.int64).reshape(-1, 12)
        self.flat = {name: np.concatenate(arrays) for name, arrays in flat.items()}
        small = np.array([_small(v) for v in self._coefficients], np.int16)
        self.flat["small"] = small[self.flat["coefficients"]]
        self.placement_table = np.array([[*p[:7], *p.wide] for p in self.placements], np.int64).reshape(-1, 10)
        del self._ports
        return self

    # ---- what the parameter file and the prover need
    @property
    def total_rows(self) -> int:
        """Constraints and the row that bellperson appends for every public input."""
        return self.n_rows + self.n_inputs

    @property
    def log_m(self) -> int:
        """log2 of the evaluation domain."""
        return max(self.total_rows - 1, 1).bit_length()

    @cached_property
    def full_index(self) -> np.ndarray:
        """uint32[k]: the auxiliary variables that are elements, ascending."""
        out = np.empty(self.n_slots - self.n_inputs, np.uint32)
        where = [np.flatnonzero(~t.bit) for t in self.templates]
        for p in self.placements:
            local = where[p.template]
            start = p.slot - self.n_inputs
            out[start:start + len(local)] = local + p.aux
        return out

    def wide_index(self, matrix: int) -> np.ndarray:
        """uint32[w]: the rows whose value in A, B or C (0, 1, 2) is an element; the appended rows are in A's."""
        where = [np.flatnonzero(t.wide[matrix]) for t in self.templates]
        extra = self.n_inputs if matrix == 0 else 0
        out = np.empty(self.n_wide[matrix] + extra, np.uint32)
        for p in self.placements:
            local, start = where[p.template], p.wide[matrix]
            out[start:start + len(local)] = local + p.row
        out[self.n_wide[matrix]:] = np.arange(self.n_rows, self.n_rows + extra)
        return out

    def _density(self, matrix: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, aux = np.zeros(self.n_inputs, bool), np.zeros(self.n_aux, bool)
        used = []
        for t in self.templates:
            seen = np.zeros(1 + t.ports + t.inputs + t.aux, bool)
            seen[t.columns[t.pointers[matrix, 0]:t.pointers[matrix, -1]]] = True
            used.append((seen[0], np.flatnonzero(seen[1:1 + t.ports]), seen[1 + t.ports:1 + t.ports + t.inputs],
                         seen[1 + t.ports + t.inputs:]))
        for p in self.placements:
            one, ports, own, local = used[p.template]
            inputs[0] |= one
            inputs[p.input:p.input + len(own)] |= own
            aux[p.aux:p.aux + len(local)] |= local
            columns = self.port_columns[p.ports + ports]
            aux[columns[columns >= AUX] - np.uint32(AUX)] = True
            inputs[columns[columns < AUX]] = True
        return inputs, aux

    @cached_property
    def a_aux(self) -> np.ndarray:
        """bool[n_aux]: occurs in A. Inputs are dense in A: their appended rows see to it."""
        return self._density(0)[1]

    @cached_property
    def b_input(self) -> np.ndarray:
        """bool[n_inputs]: occurs in B."""
        return self._b_density[0]

    @cached_property
    def b_aux(self) -> np.ndarray:
        """bool[n_aux]: occurs in B."""
        return self._b_density[1]

    @cached_property
    def _b_density(self):
        return self._density(1)

    def terms(self) -> list[int]:
        """Number of terms in A, B and C, without the appended rows."""
        counts = [np.diff(t.pointers[:, [0, -1]], axis=1)[:, 0] for t in self.templates]
        total = np.zeros(3, np.int64)
        for p in self.placements:
            total += counts[p.template]
        return [int(v) for v in total]


class Instance(NamedTuple):
    """The variables of a placed template, by number of allocation."""

    aux: int
    slot: int
    ranks: np.ndarray

    def __getitem__(self, i: int) -> Variable:
        i = i if i >= 0 else i + len(self.ranks)
        rank = int(self.ranks[i])
        return Variable(AUX + self.aux + i, self.slot + rank if rank >= 0 else -1)

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Several of them as ports, int64[n, 2]."""
        ranks = self.ranks[numbers]
        return np.stack([AUX + self.aux + numbers, np.where(ranks >= 0, self.slot + ranks, -1)], axis=1)


def _small(value: int) -> int:
    """A coefficient as a small signed integer, 0 where it is none."""
    value = value - R_ORDER if value > R_ORDER // 2 else value
    return value if abs(value) < 1 << 15 else 0
