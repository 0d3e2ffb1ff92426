"""Transforms over Fr of 2^n points in two passes over memory, split over the devices of one platform.

N = R1*R2*R3 points, C = R2*R3. A value order and a coefficient order, with r = bit reversal inside each factor:

    coefficient i = i1*C + i2*R3 + i3        stored at [i1, i2*R3 + i3]: natural, "columns", split over the second axis
    value k = k1 + R1*(k2 + R2*k3)           stored at [r(k1), r(k3), r(k2)]: "rows", split over the first axis

    forward                                                     inverse
    columns: DFT over i1 -> k1, times w^(i0*k1)                 rows:    DFT over k3 -> i3, times w_C^(-i3*k2),
    exchange                                                             swap axes, DFT over k2 -> i2
    rows:    DFT over i2 -> k2, times w_C^(i3*k2),              exchange
             swap axes, DFT over i3 -> k3                       columns: times w^(-i0*k1), DFT over k1 -> i1

(Bailey, "FFTs in external or hierarchical memory", 1990, applied twice.) Decimation in frequency forwards and in time
backwards, so that no pass is needed for bit reversal. Inside a DFT the stages have constant geometry (Pease 1968), so
that one compiled body serves all of them, and their twiddles depend on the row only. The twiddles between columns and
rows are walked from tile to tile, one product an element: nothing of length N is stored.

Values are plain, twiddles in Montgomery form. Limbs are lazy inside a DFT: one product bound is added a stage.
"""
from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as PS

from . import runtime
from .devices import local
from .field import R_ORDER, Field, materialise, scalar_field

GENERATOR = 7           # of the multiplicative group; also the coset generator of the reference
TWO_ADICITY = 32
AXIS = "x"              # name of the mesh axis


def root_of_unity(log_n: int) -> int:
    """The primitive 2^log_n-th root that bellperson uses: 7^((r-1)/2^32), squared 32 - log_n times."""
    return pow(GENERATOR, (R_ORDER - 1) >> log_n, R_ORDER)


def bit_reversed(log_n: int) -> np.ndarray:
    """r(0), ..., r(2^log_n - 1)."""
    out = np.zeros(1, np.int64)
    for _ in range(log_n):
        out = np.concatenate([2 * out, 2 * out + 1])
    return out


class Shape(NamedTuple):
    """How a transform is cut: logarithms of the factors, devices, columns and rows that one tile holds."""

    log1: int
    log2: int
    log3: int
    devices: int
    lanes: int
    rows: int

    @property
    def size(self) -> int:
        return 1 << (self.log1 + self.log2 + self.log3)

    @property
    def factors(self) -> tuple[int, int, int]:
        return 1 << self.log1, 1 << self.log2, 1 << self.log3

    @property
    def width(self) -> int:
        """Columns in all, R2*R3."""
        return 1 << (self.log2 + self.log3)


def shape_of(log_n: int, devices: int, platform: str = "cpu") -> Shape:
    """Factors near the cube root; on CPU a tile of rows fits the second-level cache (2^14 elements, 0.7 MB), and odd
    factors are preferred since their first stage has no products. On other platforms a tile is everything."""
    inner = min(7 if 20 <= log_n <= 23 else log_n // 3, max(0, log_n + 1 - devices.bit_length()) // 2)
    log1, log2 = log_n - 2 * inner, inner
    r1, width = 1 << log1, 1 << (2 * inner)
    while r1 % devices or width % devices:
        devices >>= 1
    if platform != "cpu":
        return Shape(log1, log2, inner, devices, width // devices, r1 // devices)
    rows = max(1, min(r1 // devices, (1 << 14) // width))
    return Shape(log1, log2, inner, devices, min(width // devices, max(1, (1 << 15) // r1)), rows)


# ---- tables
class Stages(NamedTuple):
    """Twiddles of one DFT of R rows: `head` [count] for a first radix-2 stage (absent when there is none, or when its
    twiddle is 1), `steps` [steps, 3, count, R/4] for pairs of stages."""

    head: np.ndarray | None
    steps: np.ndarray


def _frequency_stages(field: Field, log_r: int, shift: int = 1) -> Stages:
    """Evaluation on shift*w^k, natural -> bit-reversed: stage s reduces mod X^h -+ shift^h w_{2^(s+1)}^r(block)."""
    r, p = 1 << log_r, field.p

    def twiddles(stage):
        root, scale = root_of_unity(stage + 1), pow(shift, r >> (stage + 1), p)
        return [scale * pow(root, int(e), p) % p for e in bit_reversed(stage)]

    def step(stage):
        first, second, quarter = twiddles(stage), twiddles(stage + 1), np.arange(r // 4)
        return [[first[i % (1 << stage)] for i in quarter]] + [
            [second[(2 * i + b) % (2 << stage)] for i in quarter] for b in (0, 1)]

    odd = log_r % 2
    head = field.to_limbs(twiddles(0))[:, 0] if odd and shift != 1 else None
    return Stages(head, _pack(field, [step(s) for s in range(odd, log_r, 2)], r // 4))


def _time_stages(field: Field, log_r: int) -> Stages:
    """Interpolation times R, bit-reversed -> natural: stage s joins halves of length 2^s with w_{2^(s+1)}^-position."""
    r, p = 1 << log_r, field.p

    def step(stage):
        top = [i >> (log_r - 2 - stage) for i in range(r // 4)]
        first, second = (pow(root_of_unity(stage + k), -1, p) for k in (1, 2))
        return [[pow(first, j, p) for j in top]] + [[pow(second, j + (b << stage), p) for j in top] for b in (0, 1)]

    return Stages(None, _pack(field, [step(s) for s in range(log_r % 2, log_r, 2)], r // 4))


def _pack(field: Field, steps: list, quarter: int) -> np.ndarray:
    out = np.zeros((len(steps), 3, field.count, quarter), field.dtype)
    for s, step in enumerate(steps):
        for b, row in enumerate(step):
            out[s, b] = field.to_limbs(row)
    return out


@functools.partial(jax.jit, static_argnums=(0, 3))
def _geometric(field: Field, start, factors, log_lanes: int):
    """start[row] * ratio[row]^lane as [count, rows, 2^log_lanes]; start [count, rows], factors [log_lanes, count, rows]
    = ratio^(2^bit)."""
    lane = jnp.arange(1 << log_lanes)
    value = [jnp.broadcast_to(s[:, None], (s.shape[0], lane.size)) for s in start]
    if not log_lanes:
        return jnp.stack(value)

    def multiply(value, item):
        bit, factor = item
        return field.select((lane >> bit) & 1 == 1, field.mul(value, [f[:, None] for f in factor]), value), None

    return jnp.stack(lax.scan(multiply, value, (jnp.arange(log_lanes), factors))[0])


def geometric(field: Field, start: list[int], ratio: list[int], log_lanes: int):
    """start[row] * ratio[row]^lane in Montgomery form, [count, rows, 2^log_lanes], computed on the default device."""
    squares, power = [], list(ratio)
    for _ in range(log_lanes):
        squares.append(field.to_limbs(power))
        power = [v * v % field.p for v in power]
    packed = np.stack(squares) if squares else np.zeros((0, field.count, len(ratio)), field.dtype)
    return _geometric(field, field.to_limbs(start), packed, log_lanes)


class Walk(NamedTuple):
    """base^column * w^(+-column*k1) tile by tile: the first tile of each device, [count, R1, devices*lanes], and the
    ratio of a tile to the one before, [count, R1, 1]."""

    first: jax.Array
    ratio: np.ndarray


class Plan:
    """Shape, device mesh and tables of the transforms of 2^log_n points; one object per size, see `plan`."""

    def __init__(self, log_n: int, field: Field, devices: tuple):
        if not 1 <= log_n <= 27:
            raise ValueError(f"log_n = {log_n}: 1 to 27 expected")
        self.log_n, self.field = log_n, field
        self.shape = shape = shape_of(log_n, len(devices), devices[0].platform)
        self.platform = devices[0].platform
        self.mesh = Mesh(np.array(devices[:shape.devices]), (AXIS,))
        p, root = field.p, root_of_unity(shape.log2 + shape.log3)
        corner, corner_inverse = self.corner(root), jnp.swapaxes(self.corner(pow(root, -1, p)), 1, 2)
        self.rows_forward = self.everywhere(
            (_frequency_stages(field, shape.log2), corner, _frequency_stages(field, shape.log3)))
        self.rows_inverse = self.everywhere(
            (_time_stages(field, shape.log3), corner_inverse, _time_stages(field, shape.log2)))
        self.columns_inverse = self.everywhere(_time_stages(field, shape.log1))

    def everywhere(self, tree):
        """A pytree of arrays on every device of the mesh."""
        return jax.device_put(tree, NamedSharding(self.mesh, PS()))

    def corner(self, root: int):
        """root^(i3*k2) as [count, R2 (bit-reversed k2), R3]."""
        exponents = bit_reversed(self.shape.log2)
        return geometric(self.field, [1] * len(exponents), [pow(root, int(e), self.field.p) for e in exponents],
                         self.shape.log3)

    def columns_forward(self, coset: int) -> Stages:
        """Stages of the column DFT for evaluation on coset*<w>; `walk(..., coset)` has the rest of the shift."""
        shift = pow(coset, self.shape.width, self.field.p)
        return self.everywhere(_frequency_stages(self.field, self.shape.log1, shift))

    def walk(self, sign: int, base: int = 1) -> Walk:
        """base^i0 * w^(sign*i0*k1) over the columns i0."""
        shape, p = self.shape, self.field.p
        w = root_of_unity(self.log_n)
        ratio = [base * pow(w, sign * int(e), p) % p for e in bit_reversed(shape.log1)]
        local = shape.width // shape.devices
        starts = [pow(q, d * local, p) for q in ratio for d in range(shape.devices)]
        first = geometric(self.field, starts, [q for q in ratio for _ in range(shape.devices)],
                          shape.lanes.bit_length() - 1)
        first = first.reshape(self.field.count, 1 << shape.log1, shape.devices * shape.lanes)
        step = self.field.to_limbs([pow(q, shape.lanes, p) for q in ratio])[:, :, None]
        return Walk(jax.device_put(first, NamedSharding(self.mesh, PS(None, None, AXIS))), self.everywhere(step))

    # ---- programs
    def compile(self, function, in_specs, out_specs, donate=()):
        """jit(shard_map(function)) over the mesh, with the options of the platform."""
        options = runtime.compiler_options() if self.platform == "cpu" else None
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        return jax.jit(mapped, compiler_options=options, donate_argnums=donate)

    def value_order(self) -> np.ndarray:
        """Natural index of the value at every place of the flattened value order, [N]."""
        (r1, r2, _), s = self.shape.factors, self.shape
        k1, k2, k3 = bit_reversed(s.log1), bit_reversed(s.log2), bit_reversed(s.log3)
        return (k1[:, None, None] + r1 * (k2[None, None, :] + r2 * k3[None, :, None])).reshape(-1)

    @functools.cached_property
    def _forward(self):
        tables = (self.columns_forward(1), self.walk(1), self.rows_forward)

        def function(x, stages, walk, rows):
            x = sweep_columns(self, [x], [walk], lambda t, x, w: self.field.mul(dif(self.field, x[0], stages), w[0]))
            x = exchange(self, x)
            return sweep_rows(self, lambda t: rows_dif(self, row_tile(self, x, t), rows))

        walk_spec = Walk(PS(None, None, AXIS), PS())
        program = self.compile(function, (PS(None, AXIS), PS(), walk_spec, PS()), PS(AXIS))
        return lambda x: program(x, *tables)

    @functools.cached_property
    def _inverse(self):
        scale = self.everywhere(self.field.to_limbs([pow(self.shape.size, -1, self.field.p)]))
        tables = (self.rows_inverse, self.walk(-1), self.columns_inverse, scale)

        def function(x, rows, walk, stages, scale):
            x = exchange(self, sweep_rows_to_columns(
                self, lambda t: rows_dit(self, [take(a, t, self.shape.rows) for a in x], rows)))

            def body(t, x, w):
                x = dit(self.field, self.field.mul(x[0], w[0]), stages)
                return self.field.mul(x, [c[:, None] for c in scale])

            return sweep_columns(self, [columns_of(self, x)], [walk], body)

        walk_spec = Walk(PS(None, None, AXIS), PS())
        program = self.compile(function, (PS(AXIS), PS(), walk_spec, PS(), PS()), PS(None, AXIS))
        return lambda x: program(x, *tables)

    def forward(self, coefficients: list) -> list:
        """Coefficients, limbs [R1, C] of |limb| <= 2^width, -> values, limbs [R1, R3, R2] (see `value_order`), lazy."""
        return self._forward(coefficients)

    def inverse(self, values: list) -> list:
        """Values, limbs [R1, R3, R2] of |limb| <= 2^width, -> coefficients, limbs [R1, C] as `mul` gives them."""
        return self._inverse(values)


@functools.cache
def _plan(log_n: int, field: Field, devices: tuple) -> Plan:
    return Plan(log_n, field, devices)


def plan(log_n: int, field: Field | None = None, devices: tuple | None = None) -> Plan:
    """The plan for 2^log_n points, 1 <= log_n <= 27 (ValueError otherwise), made once per size.

    devices: all local ones of the default platform if None; the largest power of two of them that divides both rows and
    columns is used. field: Fr in the form of the platform if None.
    """
    devices = tuple(devices or local())
    return _plan(log_n, field or scalar_field(devices[0].platform), devices[:1 << (len(devices).bit_length() - 1)])


# ---- passes; everything below runs inside shard_map, on arrays of one device
def _butterfly(field: Field, low, high, twiddle, lazy: bool):
    """low +- twiddle*high in one loop; twiddle None is 1."""
    product = high if twiddle is None else field.product((high, twiddle))
    total, difference = field.add(low, product), field.sub(low, product)
    if not lazy:
        total, difference = field.carry(total), field.carry(difference)
    out = materialise(total + difference)
    return out[:field.count], out[field.count:]


def _is_lazy(field: Field, log_r: int) -> bool:
    """May all stages of a DFT of 2^log_r rows go without a carry? Each adds one product, and the first may double."""
    return field.admits(((log_r + 2) << field.width, 1 << (field.width - 1)))


def _each(function, *lists):
    return [function(*items) for items in zip(*lists)]


def dif(field: Field, x: list, stages: Stages) -> list:
    """DFT over axis 1 of limbs [batch, R, lanes], rows natural -> bit-reversed."""
    batch, r, lanes = x[0].shape
    lazy = _is_lazy(field, r.bit_length() - 1)
    if (r.bit_length() - 1) % 2:
        halves = _each(lambda a: a.reshape(batch, 2, r // 2, lanes), x)
        head = None if stages.head is None else list(stages.head)
        out = _butterfly(field, [a[:, 0] for a in halves], [a[:, 1] for a in halves], head, lazy)
        x = _each(lambda *a: jnp.stack(a, axis=2).reshape(batch, r, lanes), *out)

    def step(x, table):
        v = _each(lambda a: a.reshape(batch, 4, r // 4, lanes), x)
        t = [[limb[:, None] for limb in row] for row in table]
        u = _butterfly(field, [a[:, :2] for a in v], [a[:, 2:] for a in v], t[0], lazy)
        out = [q for bit in (0, 1)
               for q in _butterfly(field, [a[:, 0] for a in u[bit]], [a[:, 1] for a in u[bit]], t[1 + bit], lazy)]
        return _each(lambda *a: jnp.stack(a, axis=2).reshape(batch, r, lanes), *out), None

    return lax.scan(step, x, stages.steps)[0] if r > 2 else x


def dit(field: Field, x: list, stages: Stages) -> list:
    """DFT over axis 1 of limbs [batch, R, lanes], rows bit-reversed -> natural."""
    batch, r, lanes = x[0].shape
    lazy = _is_lazy(field, r.bit_length() - 1)
    if (r.bit_length() - 1) % 2:
        pairs = _each(lambda a: a.reshape(batch, r // 2, 2, lanes), x)
        out = _butterfly(field, [a[:, :, 0] for a in pairs], [a[:, :, 1] for a in pairs], None, lazy)
        x = _each(lambda *a: jnp.concatenate(a, axis=1), *out)

    def step(x, table):
        v = _each(lambda a: a.reshape(batch, r // 4, 2, 2, lanes), x)
        t = [list(row) for row in table]
        first = [limb[:, None, None] for limb in t[0]]
        u = _butterfly(field, [a[:, :, :, 0] for a in v], [a[:, :, :, 1] for a in v], first, lazy)
        even, odd = (_butterfly(field, [a[:, :, 0] for a in u[bit]], [a[:, :, 1] for a in u[bit]],
                                [limb[:, None] for limb in t[1 + bit]], lazy) for bit in (0, 1))
        return _each(lambda *a: jnp.concatenate(a, axis=1), even[0], odd[0], even[1], odd[1]), None

    return lax.scan(step, x, stages.steps)[0] if r > 2 else x


def rows_dif(plan: Plan, x: list, tables) -> list:
    """Rows [rows, R2, R3] of column order -> [rows, R3, R2] of value order."""
    first, corner, second = tables
    x = plan.field.mul(dif(plan.field, x, first), list(corner))
    return dif(plan.field, [jnp.swapaxes(a, 1, 2) for a in x], second)


def rows_dit(plan: Plan, x: list, tables) -> list:
    """Rows [rows, R3, R2] of value order -> [rows, R2, R3] of column order."""
    first, corner, second = tables
    x = plan.field.mul(dit(plan.field, x, first), list(corner))
    return dit(plan.field, [jnp.swapaxes(a, 1, 2) for a in x], second)


def take(a, t, rows: int):
    """Tile t of `rows` entries of axis 0."""
    return lax.dynamic_slice_in_dim(a, t * rows, rows)


def exchange(plan: Plan, x: list) -> list:
    """Columns <-> rows: [devices, R1/devices, C/devices], the other device's block leading on both sides."""
    d = plan.shape.devices
    x = [a.reshape(d, (1 << plan.shape.log1) // d, plan.shape.width // d) for a in x]
    return x if d == 1 else [lax.all_to_all(a, AXIS, split_axis=0, concat_axis=0, tiled=True) for a in x]


def columns_of(plan: Plan, x: list) -> list:
    """What `exchange` gives to a column pass, as [R1, C/devices]."""
    return [a.reshape(1 << plan.shape.log1, -1) for a in x]


def row_tile(plan: Plan, x: list, t) -> list:
    """Tile t of what `exchange` gives to a row pass, as [rows, R2, R3]."""
    _, r2, r3 = plan.shape.factors
    rows = plan.shape.rows
    return [lax.dynamic_slice_in_dim(a, t * rows, rows, 1).swapaxes(0, 1).reshape(rows, r2, r3) for a in x]


def _sweep(count: int, body, init, state=()):
    """fori_loop of body(t, out, state) -> (out, state)."""
    return lax.fori_loop(0, count, lambda t, carry: body(t, *carry), (init, state))[0]


def sweep_columns(plan: Plan, xs: list, walks: list, body, results=None) -> list:
    """For every tile of columns: body(t, [limbs [1, R1, lanes] of each x], [walk tile, limbs [R1, lanes], of each]) ->
    arrays [1, R1, lanes, ...], kept as [R1, C/devices, ...]. `results`: (dtype, trailing shape) each unless limbs."""
    shape, field = plan.shape, plan.field
    r1, local = 1 << shape.log1, shape.width // shape.devices

    def tile(t, out, state):
        at = t * shape.lanes
        tiles = [[lax.dynamic_slice_in_dim(a, at, shape.lanes, 1)[None] for a in x] for x in xs]
        new = body(t, tiles, state)
        out = [lax.dynamic_update_slice_in_dim(a, b[0], at, 1) for a, b in zip(out, new)]
        return out, [field.mul(w, list(walk.ratio)) for w, walk in zip(state, walks)]

    init = [jnp.zeros((r1, local, *trail), dtype) for dtype, trail in results or [(field.dtype, ())] * field.count]
    return _sweep(local // shape.lanes, tile, init, [list(w.first) for w in walks])


def sweep_rows(plan: Plan, body) -> list:
    """For every tile of rows: body(t) -> limbs [rows, R3, R2], kept as [R1/devices, R3, R2]."""
    r1, r2, r3 = plan.shape.factors
    local, rows = r1 // plan.shape.devices, plan.shape.rows

    def tile(t, out, state):
        return [lax.dynamic_update_slice_in_dim(a, b, t * rows, 0) for a, b in zip(out, body(t))], state

    return _sweep(local // rows, tile, [jnp.zeros((local, r3, r2), plan.field.dtype)] * plan.field.count)


def sweep_rows_to_columns(plan: Plan, body) -> list:
    """For every tile of rows: body(t) -> limbs [rows, R2, R3], kept as `exchange` takes them."""
    shape = plan.shape
    local, width = (1 << shape.log1) // shape.devices, shape.width // shape.devices

    def tile(t, out, state):
        blocks = [b.reshape(shape.rows, shape.devices, width).swapaxes(0, 1) for b in body(t)]
        return [lax.dynamic_update_slice_in_dim(a, b, t * shape.rows, 1) for a, b in zip(out, blocks)], state

    zeros = jnp.zeros((shape.devices, local, width), plan.field.dtype)
    return _sweep(local // shape.rows, tile, [zeros] * plan.field.count)
