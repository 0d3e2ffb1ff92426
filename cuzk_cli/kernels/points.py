"""Points between the bytes of a parameter file and rows of a table.

Uncompressed encodings (blst src/e1.c, e2.c): big-endian coordinates, 48 bytes each, for G2 c1 before c0; the three top
bits of the first byte are flags, and infinity is 0x40 followed by zeros.
"""
from __future__ import annotations

import functools

import numpy as np

import jax.numpy as jnp

from .curve import P, Group
from .devices import SHARDED, aligned, compile_sharded, put_sharded, shards

CHUNK = 1 << 15         # points a device in one call
WORDS = 6               # uint64 words of a coordinate of Fq
_P_WORDS = [(P >> (64 * k)) & (2**64 - 1) for k in range(WORDS)]


class BadPoint(ValueError):
    """A point that is not on the curve, or not encoded as the format says; `index` counts from the start of the
    batch."""

    def __init__(self, index: int, what: str):
        super().__init__(f"point {index}: {what}")
        self.index, self.what = index, what


def _words(encoded: np.ndarray, group: Group) -> np.ndarray:
    """Encodings -> little-endian words [n, coordinates of Fq, 6], c0 before c1."""
    words = encoded.view(">u8").reshape(len(encoded), -1, WORDS)[:, :, ::-1].astype(np.uint64)
    return words[:, [1, 0, 3, 2]] if group.extension else words


def _not_below_p(words: np.ndarray) -> np.ndarray:
    """bool[n]: has a coordinate that is not below p. The top word decides nearly always."""
    suspects = np.flatnonzero((words[:, :, WORDS - 1] >= np.uint64(_P_WORDS[-1])).any(axis=1))
    bad = np.zeros(len(words), bool)
    for i in suspects:
        values = [sum(int(w) << (64 * k) for k, w in enumerate(coordinate)) for coordinate in words[i]]
        bad[i] = any(v >= P for v in values)
    return bad


@functools.cache
def _decoder(group: Group):
    field = group.field
    base = field.base if group.extension else field
    to_montgomery = base.radix * base.radix % base.p

    def decode(words):
        n = words.shape[0]
        factor = base.constant(to_montgomery, (n,), montgomery=False)
        limbs = []
        for c in range(words.shape[1]):
            plain = base.from_words([words[:, c, k] for k in range(WORDS)])
            limbs.append(base.mul(plain, factor))
        half = len(limbs) // 2
        x, y = ([v for part in limbs[k * half:k * half + half] for v in part] for k in range(2))
        square = field.square(x)
        residue = field.product((y, y), (field.neg(square), x))
        off = ~field.is_zero(field.materialise(field.sub(residue, field.constant(group.b, (n,)))))
        infinite = field.all_zero(y) & field.all_zero(x)
        return jnp.stack(x + y, axis=1), off & ~infinite

    return compile_sharded(decode, (SHARDED,), (SHARDED, SHARDED))


def decode(encoded: np.ndarray, group: Group, out: np.ndarray | None = None) -> np.ndarray:
    """Encodings uint8[n, 96 | 192] -> rows int[n, 2 * count], infinity as zeros; each curve equation is checked.

    out: rows to fill, else a new aligned array. Raises BadPoint for the first bad one.
    """
    n, field = len(encoded), group.field
    if out is None:
        out = aligned((n, 2 * field.count), field.dtype)
    size = CHUNK * shards()
    for start in range(0, n, size):
        part = np.ascontiguousarray(encoded[start:start + size])
        infinite = part[:, 0] == 0x40
        if infinite.any():
            part = part.copy()
            part[infinite, 0] = 0
            smeared = infinite & part.any(axis=1)
            if smeared.any():
                raise BadPoint(start + int(np.argmax(smeared)), "bytes after the mark of infinity")
        words = aligned((size, 4 if group.extension else 2, WORDS), np.uint64)
        words[:len(part)] = _words(part, group)
        words[len(part):] = 0
        bad = _not_below_p(words[:len(part)])
        if bad.any():
            raise BadPoint(start + int(np.argmax(bad)), "flags or a coordinate that is not below p")
        rows, off = _decoder(group)(put_sharded(words))
        off = np.asarray(off)[:len(part)]
        zero = ~part.any(axis=1) & ~infinite        # all zeros is no encoding of infinity
        off = off | zero
        if off.any():
            raise BadPoint(start + int(np.argmax(off)), "not on the curve")
        out[start:start + len(part)] = np.asarray(rows)[:len(part)]
    return out


@functools.cache
def _encoder(group: Group):
    field = group.field
    base = field.base if group.extension else field

    def encode(rows):
        out = []
        for c in range(0, 2 * field.count, base.count):
            limbs = [rows[:, c + k] for k in range(base.count)]
            one = base.constant(1, limbs[0].shape, montgomery=False)
            plain = base.materialise(base.canonical(base.mul(limbs, one)))
            out.append(jnp.stack(base.materialise(base.to_words(plain, WORDS)), axis=1))
        return jnp.stack(out, axis=1)

    return compile_sharded(encode, (SHARDED,), SHARDED)


def encode(rows, group: Group) -> np.ndarray:
    """Rows on the devices, [n, 2 * count] with n a multiple of the shards -> encodings uint8[n, 96 | 192]."""
    words = np.asarray(_encoder(group)(rows))
    if group.extension:
        words = words[:, [1, 0, 3, 2]]
    encoded = np.ascontiguousarray(words[:, :, ::-1].astype(">u8")).view(np.uint8).reshape(len(words), -1)
    encoded[~encoded.any(axis=1), 0] = 0x40
    return encoded
