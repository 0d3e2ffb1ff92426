"""Batched Poseidon over Fr, in the optimised form of neptune: compressed round keys and sparse partial rounds.

    state = [tag, inputs] + pre-keys
    4 full rounds (the last with the pre-sparse matrix), R_P partial rounds (sparse matrices), 4 full rounds
    full:    s <- (s^5 + key) M                        partial: f = s_0^5 + key, s_0 <- (f, s') . w, s' <- s' + f v
    digest = state[1]

(Grassi et al., "Poseidon", USENIX Security 2021, appendix B; neptune, src/preprocessing.rs and src/mds.rs.) Lanes are
hashes; the lane count of a program is fixed, so that few programs exist, and the number of tiles it works on is an
argument. Sums of products share one reduction, `_GROUP` of them at a time.
"""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as PS

from . import runtime
from .devices import local
from .field import Field, materialise, scalar_field

_FULL_ROUNDS = 8
_GROUP = 4              # products under one reduction; both forms of Fr admit four pairs of carried values
_SMALL_BATCH, _BATCH = 256, 1 << 14
_TILE = 2048            # lanes a device works on at a time on CPU: a state of nine elements fits its second-level cache


def _grouped(rows: int) -> tuple[int, int]:
    """(groups, products in a group) for a sum of `rows` products."""
    groups = -(-rows // _GROUP)
    return groups, -(-rows // groups)


def _limbs(field: Field, words: np.ndarray, pad: int | None = None) -> np.ndarray:
    """Canonical words [..., k, 4] -> Montgomery limbs [..., count, k], k padded with zeros to `pad`."""
    words = np.ascontiguousarray(words, "<u8")
    flat = [int.from_bytes(row.tobytes(), "little") for row in words.reshape(-1, 4)]
    limbs = field.to_limbs(flat).reshape((field.count,) + words.shape[:-1])
    limbs = np.moveaxis(limbs, 0, -2)
    return np.pad(limbs, [(0, 0)] * (limbs.ndim - 1) + [(0, (pad or words.shape[-2]) - words.shape[-2])])


def _tables(field: Field, constants) -> dict:
    """Round tables in the order in which the program reads them; see `Hasher` for `constants`."""
    t, partial = len(constants.mds), len(constants.w_hat)
    keys = np.asarray(constants.keys)
    after = np.concatenate([keys[t:5 * t], keys[5 * t + partial:], np.zeros((t, 4), np.uint64)])
    matrices = np.stack([constants.mds] * 3 + [constants.pre_sparse] + [constants.mds] * 4)
    groups, each = _grouped(t)
    dense = np.zeros((_FULL_ROUNDS, groups * each, field.count, t), field.dtype)
    dense[:, :t] = _limbs(field, matrices)
    width = int(np.prod(_grouped(t - 1)))
    return {
        "pre_keys": _limbs(field, keys[:t]),
        "full_keys": _limbs(field, after.reshape(2, 4, t, 4)),
        "dense": dense.reshape(2, 4, groups, each, field.count, t),
        "partial_keys": _limbs(field, keys[5 * t:5 * t + partial, None]),
        "first": _limbs(field, np.asarray(constants.w_hat)[:, :1]),
        "column": _limbs(field, np.asarray(constants.w_hat)[:, 1:], width),
        "row": _limbs(field, constants.v_rest, width),
        "to_montgomery": field.to_limbs([field.radix])[:, :, None],
        "from_montgomery": field.to_limbs([1], montgomery=False)[:, :, None],
    }


def _lanes(table) -> list:
    """A table [count, rows] against lanes."""
    return [limb[:, None] for limb in table]


def _quintic(field: Field, x: list, key: list) -> list:
    """x^5 + key."""
    fourth = field.square(field.square(x))
    return materialise(field.carry(field.add(field.product((fourth, x)), key)))


def _full_round(field: Field, state: list, table) -> tuple:
    """State [t, lanes]; table = (key [count, t], matrix [groups, each, count, t])."""
    key, matrix = table
    groups, each = matrix.shape[:2]
    state = _quintic(field, state, _lanes(key))
    t, lanes = state[0].shape
    rows = [jnp.pad(a, ((0, groups * each - t), (0, 0))).reshape(groups, each, 1, lanes) for a in state]

    def accumulate(total, item):
        rows, matrix = item
        pairs = [([a[k] for a in rows], _lanes(matrix[k])) for k in range(each)]
        return materialise(field.carry(field.add(total, field.product(*pairs)))), None

    return lax.scan(accumulate, [jnp.zeros_like(a) for a in state], (rows, matrix))[0], None


def _partial_round(field: Field, head: list, rest: list, table) -> tuple:
    """Element 0 [1, lanes] and the others [rows, lanes], zero rows last."""
    key, first, column, row = table
    head = _quintic(field, head, _lanes(key))
    lanes = head[0].shape[1]
    groups, each = _grouped(rest[0].shape[0])
    grouped = [a.reshape(groups, each, lanes) for a in rest]
    column = [limb.reshape(groups, each, 1) for limb in column]
    pairs = [([a[:, k] for a in grouped], [limb[:, k] for limb in column]) for k in range(each)]
    parts = materialise(field.product(*pairs))
    total = field.product((head, _lanes(first)))
    for g in range(groups):
        total = field.carry(field.add(total, [a[g:g + 1] for a in parts]))
    return materialise(total), materialise(field.carry(field.add(rest, field.product((head, _lanes(row))))))


def _permute(field: Field, words, tag, tables: dict):
    """Words [lanes, arity, 4], tag: Montgomery limbs [count, 1] -> digest words [lanes, 4]."""
    lanes, arity = words.shape[:2]
    t, rows = arity + 1, tables["row"].shape[-1]
    inputs = field.from_words([words[:, :, k].T for k in range(4)])
    inputs = field.mul(inputs, list(tables["to_montgomery"]))
    state = [jnp.concatenate([jnp.broadcast_to(tag[i][:, None], (1, lanes)), a]) for i, a in enumerate(inputs)]
    state = materialise(field.carry(field.add(state, _lanes(tables["pre_keys"]))))
    partial = [tables[k] for k in ("partial_keys", "first", "column", "row")]

    def half(h, state):
        state, _ = lax.scan(functools.partial(_full_round, field), state, (tables["full_keys"][h], tables["dense"][h]))
        head, rest = [a[:1] for a in state], [jnp.pad(a[1:], ((0, rows - arity), (0, 0))) for a in state]
        count = jnp.where(h == 0, partial[0].shape[0], 0)      # partial rounds between the halves, in one compiled body
        head, rest = lax.fori_loop(
            0, count, lambda r, s: _partial_round(field, *s, [table[r] for table in partial]), (head, rest))
        return [jnp.concatenate([a, b[:arity]]) for a, b in zip(head, rest)]

    state = lax.fori_loop(0, 2, half, state)
    digest = field.mul([a[1:2] for a in state], list(tables["from_montgomery"]))
    return jnp.stack(materialise(field.to_words([a[0] for a in field.canonical(digest)], 4)), axis=-1)


@functools.cache
def _program(field: Field, mesh: Mesh):
    """jitted (words [tiles, devices*lanes, arity, 4], number of tiles to do, tag, tables) -> words [tiles, ..., 4]."""

    def function(words, count, tag, tables):
        def body(t, out):
            return out.at[t].set(_permute(field, words[t], tag, tables))
        return lax.fori_loop(0, count, body, jnp.zeros(words.shape[:2] + (4,), jnp.uint64))

    lanes = PS(None, "x")
    options = runtime.compiler_options() if mesh.devices.flat[0].platform == "cpu" else None
    specs = (lanes, PS(), PS(), PS())
    mapped = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=lanes, check_vma=False)
    return jax.jit(mapped, compiler_options=options)


class Hasher:
    """Poseidon of one arity and one domain tag; call it with words uint64[n, arity, 4] for digests uint64[n, 4].

    constants: arrays of plain canonical words, applied as row vector times matrix: keys [8t + R_P, 4] (t pre-keys, then
    the keys after every S-box but the last full round's), mds and pre_sparse [t, t, 4], w_hat [R_P, t, 4] and v_rest
    [R_P, t - 1, 4] in round order; t = arity + 1. Inputs and results are canonical; other shapes raise ValueError.
    devices: all local ones of the default platform if None, a power of two of them is used. One call at a time is split
    over them; several threads may call.
    """

    def __init__(self, constants, tag: int, field: Field | None = None, devices: tuple | None = None):
        devices = tuple(devices or local())
        devices = devices[:1 << (len(devices).bit_length() - 1)]
        self.arity = len(constants.mds) - 1
        self.field = field or scalar_field(devices[0].platform)
        self._mesh = Mesh(np.array(devices), ("x",))
        self._tag, self._tables = jax.device_put(
            (self.field.to_limbs([tag]), _tables(self.field, constants)), NamedSharding(self._mesh, PS()))
        self._tile = _TILE * len(devices) if devices[0].platform == "cpu" else _BATCH

    def start(self, inputs: np.ndarray) -> list:
        """Dispatch the hashes of `inputs` in batches; device arrays for `finish`."""
        if inputs.ndim != 3 or inputs.shape[1:] != (self.arity, 4):
            raise ValueError(f"inputs {inputs.shape}: (n, {self.arity}, 4) expected")
        started = []
        for begin in range(0, len(inputs), _BATCH):
            piece = np.asarray(inputs[begin:begin + _BATCH], np.uint64)
            tile = _SMALL_BATCH if len(piece) <= _SMALL_BATCH else min(self._tile, _BATCH)
            tile = max(tile, self._mesh.size)
            padded = np.zeros((_SMALL_BATCH if tile == _SMALL_BATCH else _BATCH, self.arity, 4), np.uint64)
            padded[:len(piece)] = piece
            words = jax.device_put(padded.reshape(-1, tile, self.arity, 4), NamedSharding(self._mesh, PS(None, "x")))
            count = np.int32(-(-len(piece) // tile))
            started.append((_program(self.field, self._mesh)(words, count, self._tag, self._tables), len(piece)))
        return started

    def finish(self, started: list) -> np.ndarray:
        """Wait for `start`: words uint64[n, 4]."""
        parts = [np.asarray(words).reshape(-1, 4)[:n] for words, n in started]
        return np.concatenate(parts) if parts else np.zeros((0, 4), np.uint64)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        return self.finish(self.start(inputs))
