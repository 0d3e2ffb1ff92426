"""The quotient H = (A*B - C) / (X^m - 1) of the quadratic arithmetic program, from the rows of a, b and c.

With g the coset generator, A*B mod (X^m - g^m) = (g^m - 1)*H + C, as H and C have degrees below m. Six transforms do:

    a --+  expand, inverse   +-----------------------+   forward on g<w>  +-------+   inverse
    b --+------------------->| coefficients A, B     |------------------->| A * B |-----------+
    c --+  rows pass         +-----------------------+                    +-------+           v
        |                          columns pass               rows pass            (A*B mod X^m - g^m) * g^-i - C
        +---------------------------------------------------------------------------> ----------------------------
                                                                                              g^m - 1
Each arrow ends in the pass over memory that begins the next one, four programs in all. The result is that of the
reference (bellperson, groth16/prover/native.rs, `execute_fft`), also for rows that do not satisfy a*b = c.
"""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as PS

from . import ntt
from .devices import aligned
from .field import Field, materialise
from .ntt import AXIS, GENERATOR, Plan, Walk
from .pieces import between

SMALL = 256            # a row holds the small value v as code v - 256 < 0, a wide value as its index
_REPLICATED = PS()
_COLUMNS = PS(None, AXIS)
_ROWS_EXCHANGED = PS(None, AXIS)
_WALK = Walk(PS(None, None, AXIS), PS())


class QuotientPlan:
    """Tables and compiled programs for one domain of 2^log_m rows; see `plan`."""

    def __init__(self, transforms: Plan):
        self.transforms = transforms
        field, shape, p = transforms.field, transforms.shape, transforms.field.p
        m, r1 = shape.size, 1 << shape.log1
        generator_inverse = pow(GENERATOR, -1, p)
        z_inverse = pow(pow(GENERATOR, m, p) - 1, -1, p)
        self._to_coefficients = transforms.walk(-1)
        self._to_coset = transforms.columns_forward(GENERATOR), transforms.walk(1, GENERATOR)
        self._from_coset = transforms.walk(-1, generator_inverse)
        # an inverse transform is m times too large, and the product of plain values carries 1/R
        product_scale = field.radix * pow(m, -3, p) * z_inverse
        step = pow(generator_inverse, shape.width, p)
        scales = [product_scale * pow(step, i, p) % p for i in range(r1)]
        self.scales = transforms.everywhere((field.to_limbs(scales)[:, :, None],
                                              field.to_limbs([-pow(m, -1, p) * z_inverse % p])[:, :, None]))

    # ---- programs, in order
    @functools.cached_property
    def _expand(self):
        """Codes and wide words, natural order -> m times the coefficients' rows: inverse row pass and exchange."""
        plan = self.transforms
        field, shape = plan.field, plan.shape
        r1, r2, _ = shape.factors
        k1, k2, k3 = (ntt.bit_reversed(s) for s in (shape.log1, shape.log2, shape.log3))
        inner = (r1 * (k2[None, :] + r2 * k3[:, None])).astype(np.int32)

        def function(codes, wide, outer, inner, tables):
            def body(t):
                index = ntt.take(outer, t, shape.rows)[:, None, None] + inner
                code = codes.at[index].get(mode="promise_in_bounds")
                words = wide.at[jnp.maximum(code, 0)].get(mode="promise_in_bounds")
                limbs = field.from_words([words[..., k] for k in range(4)])
                small = [(code + SMALL).astype(field.dtype)] + [jnp.zeros((), field.dtype)] * (field.count - 1)
                return ntt.rows_dit(plan, materialise(field.select(code < 0, small, limbs)), tables)
            return ntt.columns_of(plan, ntt.exchange(plan, ntt.sweep_rows_to_columns(plan, body)))

        program = plan.compile(function, (_REPLICATED, _REPLICATED, PS(AXIS), _REPLICATED, _REPLICATED), _COLUMNS)
        outer = jax.device_put(k1.astype(np.int32), NamedSharding(plan.mesh, PS(AXIS)))
        inner, tables = plan.everywhere(inner), plan.rows_inverse
        return lambda codes, wide: program(codes, wide, outer, inner, tables)

    @functools.cached_property
    def _shift(self):
        """Columns of a or b -> rows on the coset: inverse and forward column pass in one, exchange."""
        plan = self.transforms
        field = plan.field

        def function(x, back, inverse, ahead, forward):
            def body(t, tiles, walks):
                x = field.carry(ntt.dit(field, field.mul(tiles[0], walks[0]), back))
                return field.mul(ntt.dif(field, x, forward), walks[1])
            return ntt.exchange(plan, ntt.sweep_columns(plan, [x], [inverse, ahead], body))

        program = plan.compile(function, (_COLUMNS, _REPLICATED, _WALK, _WALK, _REPLICATED), _ROWS_EXCHANGED, donate=0)
        stages, ahead = self._to_coset
        return lambda x: program(x, plan.columns_inverse, self._to_coefficients, ahead, stages)

    @functools.cached_property
    def _multiply(self):
        """Rows of a and b -> columns of their product: forward row pass, product, inverse row pass, exchange."""
        plan = self.transforms
        field = plan.field

        def function(a, b, forward, inverse):
            def body(t):
                tiles = _each(lambda u, v: jnp.stack([u, v]), ntt.row_tile(plan, a, t), ntt.row_tile(plan, b, t))
                tiles = lax.map(lambda x: ntt.rows_dif(plan, x, forward), tiles)
                left, right = (field.carry([x[i] for x in tiles]) for i in (0, 1))
                return ntt.rows_dit(plan, field.mul(left, right), inverse)
            return ntt.columns_of(plan, ntt.exchange(plan, ntt.sweep_rows_to_columns(plan, body)))

        specs = (_ROWS_EXCHANGED, _ROWS_EXCHANGED, _REPLICATED, _REPLICATED)
        program = plan.compile(function, specs, _COLUMNS, donate=0)
        return lambda a, b: program(a, b, plan.rows_forward, plan.rows_inverse)

    @functools.cached_property
    def _divide(self):
        """Columns of the product and of c -> canonical words of H, natural order [R1, C, 4]."""
        plan = self.transforms
        field = plan.field

        def function(product, c, back, from_coset, inverse, scales):
            def body(t, tiles, walks):
                stacked = [_each(lambda u, v: jnp.stack([u, v]), *pair) for pair in (tiles, walks)]
                both = lax.map(lambda item: ntt.dit(field, field.mul(item[0], item[1]), back), tuple(stacked))
                of_product, of_c = ([x[i] for x in both] for i in (0, 1))
                h = materialise(field.product((of_product, list(scales[0])), (of_c, list(scales[1]))))
                return [jnp.stack(materialise(field.to_words(field.canonical(h), 4)), axis=-1)]
            return ntt.sweep_columns(plan, [product, c], [from_coset, inverse], body, [(jnp.uint64, (4,))])[0]

        program = plan.compile(function, (_COLUMNS, _COLUMNS, _REPLICATED, _WALK, _WALK, _REPLICATED), _COLUMNS)
        return lambda product, c: program(
            product, c, plan.columns_inverse, self._from_coset, self._to_coefficients, self.scales)

    # ---- host side
    def check(self, *values) -> None:
        """ValueError for more than m rows."""
        for n in (len(each.small) for each in values):
            if n > self.transforms.shape.size:
                raise ValueError(f"{n} rows do not fit a domain of {self.transforms.shape.size}")

    def rows(self, values) -> tuple:
        """Put `values` (see `quotient`), zero-padded to m, on the devices: codes int32[m], words uint64[room, 4].

        ValueError if there are more than m rows.
        """
        self.check(values)
        m, n, w = self.transforms.shape.size, len(values.small), len(values.wide_index)
        # in place on CPU, where one shape serves every witness; elsewhere no more than needed is sent
        room = m if self.transforms.platform == "cpu" else 1 << max(w - 1, 0).bit_length()
        codes, wide = aligned((m,), np.int32), aligned((room, 4), np.uint64)
        np.subtract(values.small, np.int16(SMALL), out=codes[:n], dtype=np.int32)
        codes[n:] = -SMALL
        codes[np.asarray(values.wide_index)] = np.arange(w, dtype=np.int32)
        wide[:w] = values.wide
        wide[w:1] = 0           # small rows read entry 0
        return self.transforms.everywhere((codes, wide))

    def run(self, a, b, c) -> jax.Array:
        """Dispatch every program, each a piece of about 0.2 s at 2^21 on two cores; words [R1, C, 4] on the devices.
        With several host devices JAX waits for a program before it takes the next one."""
        def expanded(values):
            between()
            return self._expand(*self.rows(values))

        def shifted(columns):
            between()
            return self._shift(columns)

        b_coset = shifted(expanded(b))
        a_coset = shifted(expanded(a))
        between()
        product = self._multiply(a_coset, b_coset)
        del a_coset, b_coset
        columns = expanded(c)
        between()
        return self._divide(product, columns)


def _each(function, *lists):
    return [function(*items) for items in zip(*lists)]


@functools.cache
def _plan(transforms: Plan) -> QuotientPlan:
    return QuotientPlan(transforms)


def plan(log_m: int, field: Field | None = None, devices: tuple | None = None) -> QuotientPlan:
    """The plan of a domain of 2^log_m rows, 1 to 27, made once; field and devices as in `ntt.plan`."""
    return _plan(ntt.plan(log_m, field, devices))


def quotient(a, b, c, log_m: int, field: Field | None = None, devices: tuple | None = None) -> np.ndarray:
    """Coefficients 0 to m - 2 of H, canonical little-endian words uint64[m - 1, 4], m = 2^log_m.

    a, b, c: values of the rows, zero-padded to m: objects with small int8[n], wide_index uint32[w] ascending, wide
    uint64[w, 4] canonical (below r); `small` is ignored at wide rows, and negative ones count as r - |v|. The last
    coefficient, which is zero for rows with a*b = c, is dropped.
    """
    return np.asarray(plan(log_m, field, devices).run(a, b, c)).reshape(-1, 4)[:-1]
