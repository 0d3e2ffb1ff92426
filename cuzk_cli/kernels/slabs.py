"""The quotient of a domain whose polynomials do not fit into memory as limbs.

Two matrices of words X and Y [R1, C], in memory or on disk, are gone through in slabs of whole rows or whole columns; a
slab is read, goes through a program, and is written back, while the next one is read:

    a: codes ─ rows ─► X      X ─ columns, to the coset ─► X
    b: codes ─ rows ─► Y      Y ─ columns, to the coset ─► Y
                              X, Y ─ rows: product ─► X
    c: codes ─ rows ─► Y      X, Y ─ columns: quotient ─► X

Tables, scales and the mathematics are those of `quotient`; only where the twiddles of a slab of columns begin is new.
"""
from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as PS

from ..protocol.compiled import njit
from . import ntt
from .devices import aligned
from .field import Field, materialise
from .matrix import InMemory
from .ntt import AXIS, GENERATOR, Plan
from .pieces import between
from .quotient import SMALL, QuotientPlan

SLAB = 1 << 22          # elements of a slab: 134 MB, well below a second of work
_SPLIT, _REPLICATED = PS(AXIS), PS()


class _Walk(NamedTuple):
    """base^column · w^(±column·k1) for the columns of a slab: tile by tile from its first column on."""

    ratios: list            # of a column to the one before, for each k1: plain integers
    first: jax.Array        # the first tile relative to its first column, [count, R1, lanes]
    step: jax.Array         # of a tile to the one before, [count, R1, 1]


@njit
def _codes(small, r1, first, places, indices, out):
    """Codes of rows k1 = first … of the [R1, C] matrix whose element k1 + R1·j stands at places[j] of its row."""
    rows, empty = len(out), np.int32(-SMALL)
    for j in range(len(places)):
        at = first + r1 * j
        for i in range(rows):
            out[i, places[j]] = empty + np.int32(small[at + i]) if at + i < len(small) else empty
    for q in range(len(indices)):
        out[indices[q] % r1 - first, places[indices[q] // r1]] = q


class SlabPlan:
    """Programs for slabs of one domain; see `plan`."""

    def __init__(self, whole: QuotientPlan, slab: int):
        self.whole, self.transforms = whole, whole.transforms
        shape, devices = self.transforms.shape, self.transforms.shape.devices
        r1 = 1 << shape.log1
        self.rows = min(max(slab // shape.width, devices), r1)              # of a slab of rows
        self.columns = min(max(slab // r1, devices), shape.width)           # of a slab of columns
        self.row_tile = min(shape.rows, self.rows // devices)
        self.lanes = min(shape.lanes, self.columns // devices)
        inverse = pow(GENERATOR, -1, self.transforms.field.p)
        self._back, self._ahead, self._from_coset = self._walk(-1), self._walk(1, GENERATOR), self._walk(-1, inverse)
        k2, k3 = ntt.bit_reversed(shape.log2), ntt.bit_reversed(shape.log3)
        self._places = (k2[None, :] + (k3 << shape.log2)[:, None]).reshape(-1)      # of k2 + R2·k3

    # ---- twiddles
    def _walk(self, sign: int, base: int = 1) -> _Walk:
        plan, field = self.transforms, self.transforms.field
        w = ntt.root_of_unity(plan.log_n)
        ratios = [base * pow(w, sign * int(e), field.p) % field.p for e in ntt.bit_reversed(plan.shape.log1)]
        first = ntt.geometric(field, [1] * len(ratios), ratios, self.lanes.bit_length() - 1)
        step = field.to_limbs([pow(q, self.lanes, field.p) for q in ratios])[:, :, None]
        return _Walk(ratios, plan.everywhere(first), plan.everywhere(step))

    def _starts(self, walk: _Walk, column: int) -> jax.Array:
        """Where the walk stands at each device's first column of a slab, [devices, count, R1, 1]."""
        field, d = self.transforms.field, self.transforms.shape.devices
        each = self.columns // d
        starts = [field.to_limbs([pow(q, column + k * each, field.p) for q in walk.ratios]) for k in range(d)]
        return self._put(np.stack(starts)[..., None])

    def _put(self, array) -> jax.Array:
        """Equal parts of the leading axis, one a device."""
        return jax.device_put(array, NamedSharding(self.transforms.mesh, _SPLIT))

    # ---- programs
    @functools.cached_property
    def _expand(self):
        """Codes [rows, C] and wide words -> words of the rows after the inverse row pass."""
        plan, field = self.transforms, self.transforms.field
        _, r2, r3 = plan.shape.factors

        def function(codes, wide, tables):
            def body(t):
                code = ntt.take(codes, t, self.row_tile).reshape(-1, r3, r2)
                words = wide.at[jnp.maximum(code, 0)].get(mode="promise_in_bounds")
                limbs = field.from_words([words[..., k] for k in range(4)])
                small = [(code + SMALL).astype(field.dtype)] + [jnp.zeros((), field.dtype)] * (field.count - 1)
                return ntt.rows_dit(plan, materialise(field.select(code < 0, small, limbs)), tables)
            return self._sweep_rows(body)

        program = plan.compile(function, (_SPLIT, _REPLICATED, _REPLICATED), _SPLIT)
        return lambda codes, wide: program(codes, wide, plan.rows_inverse)

    @functools.cached_property
    def _multiply(self):
        """Words of rows of a and b on the coset -> of their product after the inverse row pass."""
        plan, field = self.transforms, self.transforms.field
        _, r2, r3 = plan.shape.factors

        def function(a, b, forward, inverse):
            def body(t):
                tiles = [_limbs(field, ntt.take(x, t, self.row_tile).reshape(-1, r2, r3, 4)) for x in (a, b)]
                both = lax.map(lambda x: ntt.rows_dif(plan, x, forward), [jnp.stack(pair) for pair in zip(*tiles)])
                left, right = (field.carry([x[i] for x in both]) for i in (0, 1))
                return ntt.rows_dit(plan, field.mul(left, right), inverse)
            return self._sweep_rows(body)

        program = plan.compile(function, (_SPLIT, _SPLIT, _REPLICATED, _REPLICATED), _SPLIT)
        return lambda a, b: program(a, b, plan.rows_forward, plan.rows_inverse)

    @functools.cached_property
    def _shift(self):
        """Words of columns of a or b -> of the columns on the coset, twiddles to the rows included."""
        plan, field = self.transforms, self.transforms.field
        forward = plan.columns_forward(GENERATOR)

        def body(tiles, walks, tables):
            back, ahead = tables
            x = field.carry(ntt.dit(field, field.mul(tiles[0], walks[0]), back))
            return field.mul(ntt.dif(field, x, ahead), walks[1])

        return self._columns_program(body, 1, (self._back, self._ahead), (plan.columns_inverse, forward))

    @functools.cached_property
    def _divide(self):
        """Words of columns of the product and of c -> of H."""
        plan, field = self.transforms, self.transforms.field

        def body(tiles, walks, tables):
            back, scales = tables
            stacked = [[jnp.stack(pair) for pair in zip(*both)] for both in (tiles, walks)]
            both = lax.map(lambda item: ntt.dit(field, field.mul(item[0], item[1]), back), tuple(stacked))
            of_product, of_c = ([x[i] for x in both] for i in (0, 1))
            return materialise(field.product((of_product, list(scales[0])), (of_c, list(scales[1]))))

        return self._columns_program(body, 2, (self._from_coset, self._back), (plan.columns_inverse, self.whole.scales))

    def _sweep_rows(self, body) -> jax.Array:
        """For every tile of rows: body(t) -> limbs [rows, R2, R3], kept as words [rows of a device, C, 4]."""
        plan, field = self.transforms, self.transforms.field
        local, width = self.rows // plan.shape.devices, plan.shape.width
        one = field.constant(1, (1, 1, 1))      # what a transform gives may be too many p for `canonical`

        def tile(t, out):
            words = _words(field, field.mul(body(t), one)).reshape(-1, width, 4)
            return lax.dynamic_update_slice_in_dim(out, words, t * self.row_tile, 0)

        return lax.fori_loop(0, local // self.row_tile, tile, jnp.zeros((local, width, 4), jnp.uint64))

    def _columns_program(self, body, count: int, walks: tuple, tables):
        """For every tile of columns: body(limbs [1, R1, lanes] of each matrix, of each walk, tables) -> limbs."""
        plan, field = self.transforms, self.transforms.field
        local, r1 = self.columns // plan.shape.devices, 1 << plan.shape.log1

        def function(slabs, starts, walks, tables):
            def tile(t, carry):
                out, state = carry
                tiles = [_limbs(field, lax.dynamic_slice_in_dim(x, t * self.lanes, self.lanes, 2)) for x in slabs]
                new = _words(field, body(tiles, state, tables))
                out = lax.dynamic_update_slice_in_dim(out, new, t * self.lanes, 2)
                return out, [field.mul(w, list(step)) for w, (_, step) in zip(state, walks)]

            state = [field.mul(list(first), list(start[0])) for start, (first, _) in zip(starts, walks)]
            out = jnp.zeros((1, r1, local, 4), jnp.uint64)
            return lax.fori_loop(0, local // self.lanes, tile, (out, state))[0]

        specs = ([_SPLIT] * count, [_SPLIT] * len(walks), _REPLICATED, _REPLICATED)
        program = plan.compile(function, specs, _SPLIT)
        constants = [(walk.first, walk.step) for walk in walks]
        return lambda slabs, column: program(
            slabs, [self._starts(walk, column) for walk in walks], constants, tables)

    # ---- passes over the matrices
    def _fill(self, values, matrix) -> None:
        """Rows of the witness -> `matrix` after the inverse row pass. See `quotient` for `values`."""
        plan, (r1, _, _) = self.transforms, self.transforms.shape.factors
        small, indices = values.small, np.asarray(values.wide_index, np.int64)
        slab = indices % r1 // self.rows
        order = np.argsort(slab, kind="stable")
        bounds = np.searchsorted(slab[order], np.arange(r1 // self.rows + 1))
        largest = int(np.diff(bounds).max(initial=0))
        # in place on CPU, where one shape serves every witness; elsewhere no more than needed is sent
        room = self.rows * plan.shape.width if plan.platform == "cpu" else 1 << max(largest - 1, 0).bit_length()
        stored = ntt.bit_reversed(plan.shape.log1)

        def prepare(k):
            part = order[bounds[k]:bounds[k + 1]]
            codes, wide = aligned((self.rows, plan.shape.width), np.int32), aligned((room, 4), np.uint64)
            _codes(small, r1, k * self.rows, self._places, indices[part], codes)
            wide[:len(part)] = values.wide[part]
            wide[len(part):1] = 0       # small rows read entry 0
            return self._put(codes), plan.everywhere(wide)

        def run(k, given):
            for start, words in _parts(self._expand(*given)):
                for i, row in enumerate(words):
                    matrix.write(int(stored[k * self.rows + start + i]), 0, row[None])

        _pipelined(range(r1 // self.rows), prepare, run)

    def _columns_pass(self, program, matrices: list, target) -> None:
        """Every slab of columns of `matrices` through a program, to `target`."""
        shape = self.transforms.shape
        d, r1 = shape.devices, 1 << shape.log1
        each = self.columns // d

        def prepare(column):
            slabs = [aligned((d, r1, each, 4), np.uint64) for _ in matrices]
            for slab, matrix in zip(slabs, matrices):
                for k in range(d):
                    matrix.read(0, column + k * each, slab[k])
            return [self._put(slab) for slab in slabs]

        def run(column, slabs):
            for k, words in _parts(program(slabs, column)):
                target.write(0, column + k * each, words[0])

        _pipelined(range(0, shape.width, self.columns), prepare, run)

    def _product_pass(self, x, y) -> None:
        shape = self.transforms.shape

        def prepare(row):
            slabs = [aligned((self.rows, shape.width, 4), np.uint64) for _ in range(2)]
            for slab, matrix in zip(slabs, (x, y)):
                matrix.read(row, 0, slab)
            return [self._put(slab) for slab in slabs]

        def run(row, slabs):
            for start, words in _parts(self._multiply(*slabs)):
                x.write(row + start, 0, words)

        _pipelined(range(0, 1 << shape.log1, self.rows), prepare, run)

    def run(self, a, b, c, new: Callable = InMemory):
        """H as a matrix whose elements are its coefficients in order. new(rows, columns): makes a matrix.

        ValueError if there are more rows than the domain has.
        """
        self.whole.check(a, b, c)
        size = 1 << self.transforms.shape.log1, self.transforms.shape.width
        x, y = new(*size), new(*size)
        for values, matrix in ((a, x), (b, y)):
            self._fill(values, matrix)
            self._columns_pass(self._shift, [matrix], matrix)
        self._product_pass(x, y)
        self._fill(c, y)
        self._columns_pass(self._divide, [x, y], x)
        return x


def _limbs(field: Field, words) -> list:
    return field.from_words([words[..., k] for k in range(4)])


def _words(field: Field, limbs: list) -> jax.Array:
    return jnp.stack(materialise(field.to_words(field.canonical(limbs), 4)), axis=-1)


def _parts(array: jax.Array) -> list[tuple[int, np.ndarray]]:
    """Each device's part of an array, with its first index; on CPU without a copy."""
    return [(shard.index[0].start or 0, np.asarray(shard.data)) for shard in array.addressable_shards]


def _pipelined(items: Iterable, prepare: Callable, run: Callable) -> None:
    """run(item, prepare(item)) for each item; the next one is prepared meanwhile."""
    items = list(items)
    with ThreadPoolExecutor(1, "slab") as beside:
        waiting = beside.submit(prepare, items[0])
        for item, following in zip(items, [*items[1:], None]):
            given = waiting.result()
            if following is not None:
                waiting = beside.submit(prepare, following)
            between()
            run(item, given)


@functools.cache
def _plan(whole: QuotientPlan, slab: int) -> SlabPlan:
    return SlabPlan(whole, slab)


def plan(whole: QuotientPlan, slab: int = SLAB) -> SlabPlan:
    """The plan for slabs of about so many elements, a power of two, made once."""
    return _plan(whole, slab)
