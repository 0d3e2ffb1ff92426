"""The scalar field of BLS12-381 on the host: Python integers, words, and compiled Montgomery arithmetic.

"Words" are canonical integers below r as uint64[..., 4], little-endian: the same memory as 32 little-endian bytes.
Compiled functions work on tuples of four uint64 in Montgomery form with R = 2^256.
"""
from __future__ import annotations

import numpy as np

from .compiled import intrinsic, ir, njit, types

R_ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001    # bls12_381, blstrs/src/scalar.rs
GENERATOR = 7               # multiplicative generator, blstrs/src/scalar.rs
TWO_ADICITY = 32
MONTGOMERY_R = (1 << 256) % R_ORDER


def to_words(values) -> np.ndarray:
    """Integers (reduced mod r) -> uint64[n, 4]."""
    data = b"".join((int(v) % R_ORDER).to_bytes(32, "little") for v in values)
    return np.frombuffer(data, "<u8").reshape(-1, 4).copy()


def to_ints(words) -> list[int]:
    """uint64[..., 4] -> integers, flat."""
    data = np.ascontiguousarray(words, dtype="<u8").tobytes()
    return [int.from_bytes(data[i:i + 32], "little") for i in range(0, len(data), 32)]


def root_of_unity(log_n: int) -> int:
    """A primitive 2^log_n-th root of unity, as bellperson chooses it (bellperson/src/domain.rs)."""
    return pow(pow(GENERATOR, (R_ORDER - 1) >> TWO_ADICITY, R_ORDER), 1 << (TWO_ADICITY - log_n), R_ORDER)


# ---------------------------------------------------------------- compiled arithmetic on four words
_U4 = types.UniTuple(types.uint64, 4)
_I64, _I256, _I512 = ir.IntType(64), ir.IntType(256), ir.IntType(512)
_NEG_INVERSE = -pow(R_ORDER, -1, 1 << 256) % (1 << 256)


def _pack(builder, value):
    total = None
    for k in range(4):
        word = builder.zext(builder.extract_value(value, k), _I256)
        word = builder.shl(word, ir.Constant(_I256, 64 * k)) if k else word
        total = word if total is None else builder.or_(total, word)
    return total


def _unpack(context, builder, wide):
    words = [builder.trunc(builder.lshr(wide, ir.Constant(_I256, 64 * k)), _I64) for k in range(4)]
    return context.make_tuple(builder, _U4, words)


def _below_r(builder, wide):
    """wide - r if wide >= r, for wide < 2r."""
    order = ir.Constant(_I256, R_ORDER)
    return builder.select(builder.icmp_unsigned(">=", wide, order), builder.sub(wide, order), wide)


@intrinsic
def mont_mul(typingctx, a, b):
    """a*b/2^256 mod r; both below r, or one of them any 256-bit value."""
    def codegen(context, builder, signature, args):
        a, b = (builder.zext(_pack(builder, v), _I512) for v in args)
        t = builder.mul(a, b)
        m = builder.mul(builder.trunc(t, _I256), ir.Constant(_I256, _NEG_INVERSE))
        t = builder.add(t, builder.mul(builder.zext(m, _I512), ir.Constant(_I512, R_ORDER)))
        high = builder.trunc(builder.lshr(t, ir.Constant(_I512, 256)), _I256)
        return _unpack(context, builder, _below_r(builder, high))
    return _U4(_U4, _U4), codegen


@intrinsic
def add_mod(typingctx, a, b):
    """a + b mod r; both below r."""
    def codegen(context, builder, signature, args):
        a, b = (_pack(builder, v) for v in args)
        return _unpack(context, builder, _below_r(builder, builder.add(a, b)))
    return _U4(_U4, _U4), codegen


@intrinsic
def sub_mod(typingctx, a, b):
    """a - b mod r; both below r."""
    def codegen(context, builder, signature, args):
        a, b = (_pack(builder, v) for v in args)
        difference = builder.sub(a, b)
        wrapped = builder.add(difference, ir.Constant(_I256, R_ORDER))
        return _unpack(context, builder, builder.select(builder.icmp_unsigned("<", a, b), wrapped, difference))
    return _U4(_U4, _U4), codegen


def _constant(value: int) -> tuple:
    return tuple(np.uint64((value >> (64 * k)) & (2**64 - 1)) for k in range(4))


ZERO = _constant(0)
ONE = _constant(MONTGOMERY_R)
_PLAIN_ONE = _constant(1)
_R_SQUARED = _constant(MONTGOMERY_R * MONTGOMERY_R % R_ORDER)


@njit
def load(words, i):
    """Row i of uint64[n, 4] as a tuple."""
    return words[i, 0], words[i, 1], words[i, 2], words[i, 3]


@njit
def store(words, i, value):
    """Write a tuple to row i."""
    words[i, 0], words[i, 1], words[i, 2], words[i, 3] = value


_ORDER_WORDS = np.array([(R_ORDER >> (64 * k)) & (2**64 - 1) for k in range(4)], np.uint64)


@njit
def first_not_below_order(words):
    """Index of the first row of uint64[n, 4] that is no canonical element, -1 if all are."""
    for i in range(len(words)):
        for k in (3, 2, 1, 0):
            if words[i, k] != _ORDER_WORDS[k]:
                if words[i, k] > _ORDER_WORDS[k]:
                    return i
                break
        else:
            return i
    return -1


@njit
def to_mont(value):
    """Any 256-bit value -> Montgomery form of its residue."""
    return mont_mul(value, _R_SQUARED)


@njit
def from_mont(value):
    """Montgomery form -> canonical."""
    return mont_mul(value, _PLAIN_ONE)


@njit
def to_mont_rows(words):
    """uint64[n, 4] words -> Montgomery form, uint64[n, 4]."""
    out = np.empty_like(words)
    for i in range(len(words)):
        store(out, i, to_mont(load(words, i)))
    return out


@njit
def from_mont_rows(words):
    """Montgomery form uint64[n, 4] -> words."""
    out = np.empty_like(words)
    for i in range(len(words)):
        store(out, i, from_mont(load(words, i)))
    return out


@njit
def pow_mont(base, exponent):
    """base^exponent for a Montgomery base and a uint64[4] exponent (little-endian words)."""
    result = ONE
    for k in range(255, -1, -1):
        result = mont_mul(result, result)
        if (exponent[k >> 6] >> np.uint64(k & 63)) & np.uint64(1):
            result = mont_mul(result, base)
    return result
