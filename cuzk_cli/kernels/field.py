"""Prime fields on batches: one source above the product, two products (CPU and GPU) below.

A batch of field elements is a list of `count` limb arrays of one shape (limbs lead, batch trails), in Montgomery form with
radix R = 2^(width*count) unless a function says otherwise. Limbs are signed and may be lazy: a bound on the limbs is part of
every function's contract and `Field.admits` says whether two bounds may meet in a product.
"""
from __future__ import annotations

import functools
from abc import ABC, abstractmethod

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax

R_ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
Q_PRIME = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB

i64, f64, i32 = jnp.int64, jnp.float64, jnp.int32


def materialise(outs: list) -> list:
    """One loop with many results.

    XLA:CPU would recompute the whole product for each of its limbs. A variadic reduce over a broadcast axis of length 2
    is one loop, and LLVM drops the axis.
    """
    ops = [jnp.broadcast_to(o[None], (2,) + o.shape) for o in outs]
    zeros = [jnp.zeros((), o.dtype) for o in outs]
    return list(lax.reduce(ops, zeros, lambda x, y: [p | q for p, q in zip(x, y)], (0,)))


class Field(ABC):
    """A prime field in `count` limbs of `width` bits. Subclasses give `product` and `admits`."""

    dtype: type

    def __init__(self, p: int, width: int, count: int):
        self.p, self.width, self.count = p, width, count
        self.radix = 1 << (width * count)
        self.pinv = (-pow(p, -1, 1 << width)) % (1 << width)
        self.p_limbs = [(p >> (width * i)) & ((1 << width) - 1) for i in range(count)]
        self.p_balanced = [int(v) for v in self._balance(p)]
        self.p_top = p / 2.0 ** (width * (count - 1))

    # ---- host conversions
    def _balance(self, x: int) -> list[int]:
        out, half, mask = [], 1 << (self.width - 1), (1 << self.width) - 1
        for _ in range(self.count - 1):
            d = ((x + half) & mask) - half
            out.append(d)
            x = (x - d) >> self.width
        return out + [x]

    def to_limbs(self, values, montgomery: bool = True) -> np.ndarray:
        """Python integers -> balanced limbs [count, n] of the symmetric residue, times R if `montgomery`."""
        out = np.zeros((self.count, len(values)), self.dtype)
        for k, x in enumerate(values):
            x = (x * self.radix if montgomery else x) % self.p
            out[:, k] = self._balance(x - self.p if x > self.p // 2 else x)
        return out

    def to_ints(self, limbs, montgomery: bool = True) -> list[int]:
        """Limbs [count, ...] -> canonical Python integers, flat; the inverse of to_limbs."""
        scale = pow(self.radix, -1, self.p) if montgomery else 1
        total = sum(np.asarray(limbs[i]).astype(object).reshape(-1) * (1 << (self.width * i)) for i in range(self.count))
        return [int(v) * scale % self.p for v in total]

    # ---- words of 64 bits, on the device
    def from_words(self, words) -> list:
        """Limbs in [0, 2^width), the top one without that bound, of little-endian uint64 words (a list of arrays)."""
        out = []
        for i in range(self.count):
            k, low = divmod(self.width * i, 64)
            if k >= len(words):
                out.append(jnp.zeros(words[0].shape, self.dtype))
                continue
            v = words[k] >> np.uint64(low)
            if low and k + 1 < len(words):
                v = v | (words[k + 1] << np.uint64(64 - low))
            if i < self.count - 1:
                v = v & np.uint64((1 << self.width) - 1)
            out.append(v.astype(self.dtype))
        return out

    def to_words(self, canonical, count: int) -> list:
        """`count` little-endian uint64 words (a list of arrays) of canonical limbs; not materialised."""
        limbs = [x.astype(jnp.uint64) for x in canonical]
        out = []
        for k in range(count):
            word = jnp.zeros(limbs[0].shape, jnp.uint64)
            for i, x in enumerate(limbs):
                shift = self.width * i - 64 * k
                if -self.width < shift < 64:
                    word = word | (x << np.uint64(shift) if shift >= 0 else x >> np.uint64(-shift))
            out.append(word)
        return out

    def constant(self, value: int, shape, montgomery: bool = True) -> list:
        """`value` in every lane."""
        return [jnp.full(shape, int(c), self.dtype) for c in self.to_limbs([value], montgomery)[:, 0]]

    # ---- arithmetic
    def product(self, *pairs) -> list:
        """Sum of a*b over the pairs, divided by R, mod p; not materialised. See the subclass for bounds.

        A pair (a, a), the same list twice, is a square. Traced once for each shape: a curve formula has dozens.
        """
        squares = tuple(a is b for a, b in pairs)
        return _traced_product(self, squares, [(list(a),) if a is b else (list(a), list(b)) for a, b in pairs])

    @abstractmethod
    def admits(self, *bounds) -> bool:
        """May pairs whose limbs are bounded by (a, b) in absolute value enter `product` together?"""

    @abstractmethod
    def _product(self, *pairs) -> list:
        """`product` for one shape."""

    def materialise(self, v) -> list:
        """The function of that name, as the curve formulas call it."""
        return materialise(v)

    def mul(self, a, b) -> list:
        return materialise(self.product((a, b)))

    def square(self, a) -> list:
        return materialise(self.product((a, a)))

    def add(self, a, b) -> list:
        return [u + v for u, v in zip(a, b)]

    def sub(self, a, b) -> list:
        return [u - v for u, v in zip(a, b)]

    def neg(self, a) -> list:
        return [-u for u in a]

    def select(self, condition, a, b) -> list:
        return [jnp.where(condition, u, v) for u, v in zip(a, b)]

    def carry(self, v) -> list:
        """Balanced limbs of the same value: |limb| <= 2^(width-1) but for the top one."""
        out, c = [], None
        for j in range(self.count):
            u = v[j] if c is None else v[j] + c
            if j < self.count - 1:
                c = (u + self.dtype(1 << (self.width - 1))) >> self.dtype(self.width)
                u = u - (c << self.dtype(self.width))
            out.append(u)
        return out

    def reduce(self, v) -> list:
        """Balanced limbs of a residue in [-p/2, p/2] (up to 2^-40 p), limbs lazy.

        The value may be many p in HybridField, less than (2^(32 - width) - 2) p in Int32Field: 6 p in Fr, 14 p in Fq.
        """
        v = self.carry(v)
        estimate = v[-1].astype(f64) + v[-2].astype(f64) * 2.0**-self.width
        q = jnp.round(estimate * (1.0 / self.p_top)).astype(self.dtype)
        return self.carry([a - q * self.dtype(c) for a, c in zip(v, self.p_balanced)])

    def all_zero(self, v):
        """Are all limbs zero? (The value zero as written by us, not merely zero mod p.)"""
        o = v[0]
        for x in v[1:]:
            o = o | x
        return o == 0

    def is_zero(self, v):
        """Is the value zero mod p?"""
        return self.all_zero(self.reduce(v))

    def canonical(self, v) -> list:
        """Limbs in [0, 2^width) of the residue in [0, p)."""
        v = self.reduce(v)
        negative = v[-1] < 0
        for j in range(self.count - 2, -1, -1):     # sign of the highest limb that is not zero
            higher = self.all_zero(v[j + 1:])
            negative = jnp.where(higher, v[j] < 0, negative)
        v = [jnp.where(negative, a + self.dtype(c), a) for a, c in zip(v, self.p_balanced)]
        out, c = [], None
        for j in range(self.count):
            u = v[j] if c is None else v[j] + c
            if j < self.count - 1:
                c = u >> self.dtype(self.width)
                u = u - (c << self.dtype(self.width))
            out.append(u)
        return out


@functools.partial(jax.jit, static_argnums=(0, 1))
def _traced_product(field: Field, squares: tuple, operands: list) -> list:
    return field._product(*((o[0], o[0]) if square else o for square, o in zip(squares, operands)))


class HybridField(Field):
    """The CPU product: int64 limbs, low half of a column in wrapping int64, high half in float64.

    The float64 accumulator starts at C1 = 1.5*2^(exponent+52), where the last mantissa bit is worth 2^exponent: its bit
    pattern then *is* the integer high part, off by a few units at most, and `low = S - (H << exponent)` mod 2^64 is exact.
    Nothing depends on whether the compiler contracts multiply-adds. Digits stay balanced (unsigned ones make LLVM build
    a second copy of the low chain).
    """

    dtype = np.int64

    def __init__(self, p: int, width: int, count: int, exponent: int):
        super().__init__(p, width, count)
        self.exponent = exponent
        self.c1 = 1.5 * 2.0 ** (exponent + 52)
        self.c1_bits = int(np.array(self.c1).view(np.int64))
        # Fr: p = 1 - 2^32 mod 2^52, so that m*p[0] is two shifts
        self.low32 = p % 2**32 == 1 and width == 52
        self.m_limbs = [1 - (1 << 32), self.p_limbs[1] + 1] + self.p_limbs[2:] if self.low32 else self.p_limbs

    def admits(self, *bounds) -> bool:
        column = self.count * (sum(a * b for a, b in bounds) + 2 ** (self.width - 1) * max(abs(x) for x in self.m_limbs))
        steps = self.count * (len(bounds) + 1)
        carry = 2 ** (51 + self.exponent - self.width + 1)
        return column < 2 ** (self.exponent + 51) and steps * 2 ** (self.exponent - 1) + carry < 2**63

    def _product(self, *pairs) -> list:
        """|result| <= sum |a||b|/R + p/2; limbs balanced, top limb free. A pair (a, a) costs half the multiplications."""
        n, width, exponent, pl = self.count, self.width, self.exponent, self.m_limbs
        terms = []
        for a, b in pairs:
            d = [x + x for x in a] if a is b else a
            terms.append((a is b, d, [x.astype(f64) for x in d], b, [x.astype(f64) for x in b]))
        m, mf, c, out = [], [], None, []
        for k in range(2 * n - 1):
            t, h = c, f64(self.c1)
            for square, a, af, b, bf in terms:
                for i in range(max(0, k - n + 1), min(n, k + 1)):
                    j = k - i
                    if square and i > j:
                        continue
                    u, uf = (b[i], bf[i]) if square and i == j else (a[i], af[i])
                    t = u * b[j] if t is None else t + u * b[j]
                    h = uf * bf[j] + h
            for i in range(max(0, k - n + 1), min(n, k)):
                t, h = t + m[i] * i64(pl[k - i]), mf[i] * f64(pl[k - i]) + h
            if k < n:
                mk = ((t * i64(self.pinv)) << i64(64 - width)) >> i64(64 - width)
                m.append(mk)
                mf.append(mk.astype(f64))
                if not self.low32:
                    t, h = t + mk * i64(pl[0]), mf[k] * f64(pl[0]) + h
            hb = lax.bitcast_convert_type(h, i64)
            low = t - (hb << i64(exponent))             # the low `exponent` bits of c1's own pattern are zero
            high = (hb - i64(self.c1_bits)) << i64(exponent - width)
            if k >= n:
                q = (low + i64(1 << (width - 1))) >> i64(width)
                out.append(low - (q << i64(width)))
            elif self.low32:
                q = (((low + mk) >> i64(32)) - mk) >> i64(20)
            else:
                q = low >> i64(width)
            c = q + high
        return out + [c]


class Int32Field(Field):
    """The GPU product: int32 limbs, 64-bit accumulators, rows of a schoolbook product with interleaved reduction.

    Result limbs are in [0, 2^width) but for the top one, which carries the sign; inputs up to 2^(width+1).
    """

    dtype = np.int32

    def admits(self, *bounds) -> bool:
        column = self.count * (sum(a * b for a, b in bounds) + 2 ** (2 * self.width))
        return column + column // 2**self.width < 2**63 and all(a < 2**31 and b < 2**31 for a, b in bounds)

    def _product(self, *pairs) -> list:
        """|result| <= sum |a||b|/R + p."""
        n, width, mask = self.count, self.width, (1 << self.width) - 1
        wide = [([x.astype(i64) for x in a], [x.astype(i64) for x in b]) for a, b in pairs]
        t = [None] * n
        for i in range(n):
            for a, b in wide:
                for j in range(n):
                    u = a[i] * b[j]
                    t[j] = u if t[j] is None else t[j] + u
            m = ((t[0].astype(i32) * i32(np.uint32(self.pinv).astype(np.int32))) & i32(mask)).astype(i64)
            for j in range(n):
                t[j] = t[j] + m * i64(self.p_limbs[j])
            t = [t[1] + (t[0] >> i64(width))] + t[2:] + [None]
        t[n - 1] = jnp.zeros_like(t[0])
        out, c = [], None
        for j in range(n):
            v = t[j] if c is None else t[j] + c
            if j < n - 1:
                c = v >> i64(width)
                v = v & i64(mask)
            out.append(v.astype(i32))
        return out


@functools.cache
def scalar_field(platform: str = "cpu") -> Field:
    """Fr of BLS12-381: hybrid 5 x 52 on CPU (limbs to 2^55 times balanced ones), int32 9 x 29 elsewhere."""
    return HybridField(R_ORDER, 52, 5, 59) if platform == "cpu" else Int32Field(R_ORDER, 29, 9)


@functools.cache
def base_field(platform: str = "cpu") -> Field:
    """Fq of BLS12-381: hybrid 8 x 50 on CPU (limbs to 2^52 on both sides), int32 14 x 28 elsewhere."""
    return HybridField(Q_PRIME, 50, 8, 57) if platform == "cpu" else Int32Field(Q_PRIME, 28, 14)
