"""SHA-256 in constraints, as bellperson's gadgets emit it, and the TreeD hash on it.

Sources: bellperson src/gadgets/{sha256,uint32,multieq}.rs; filecoin-hashers src/sha256.rs.
Words are lists of 32 Bits, least significant first.
"""
from __future__ import annotations

from .template import FALSE, ONE, TRUE, Bit, Builder, Rows, Template, combine, packed

# FIPS 180-4, 4.2.2 and 5.3.3
ROUND_CONSTANTS = (
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2,
)
INITIAL = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
CAPACITY = 254          # bits that fit a scalar whatever their value


def constant_word(value: int) -> list[Bit]:
    return [TRUE if value >> i & 1 else FALSE for i in range(32)]


def _rotate(word: list[Bit], by: int) -> list[Bit]:
    return word[by:] + word[:by]


def _shift(word: list[Bit], by: int) -> list[Bit]:
    return word[by:] + [FALSE] * by


class MultiEq:
    """Packs equalities of small numbers into rows of at most 254 bits (multieq.rs)."""

    def __init__(self, builder: Builder):
        self._builder, self._used, self._left, self._right = builder, 0, {}, {}

    def equal(self, bits: int, left: dict, right: dict) -> None:
        """left = right, both below 2^bits."""
        if self._used + bits >= CAPACITY:
            self.flush()
        scale = 1 << self._used
        for total, terms in ((self._left, left), (self._right, right)):
            for column, value in terms.items():
                total[column] = total.get(column, 0) + scale * value
        self._used += bits

    def flush(self) -> None:
        """Emit what has been gathered."""
        if self._used:
            self._builder.enforce(combine(self._left), {ONE: 1}, combine(self._right), Rows.COPY)
        self._used, self._left, self._right = 0, {}, {}


def _add_many(builder: Builder, equations: MultiEq, operands: list[list[Bit]]) -> list[Bit]:
    """Sum mod 2^32 (uint32.rs, addmany): new bits for the whole sum, one equation."""
    if all(bit.constant is not None for word in operands for bit in word):
        return constant_word(sum(bit.constant << i for word in operands for i, bit in enumerate(word)) & 0xFFFFFFFF)
    count = (len(operands) * 0xFFFFFFFF).bit_length()
    left: dict = {}
    for word in operands:
        for i, bit in enumerate(word):
            for column, value in bit.terms(1 << i).items():
                left[column] = left.get(column, 0) + value
    bits = builder.sum_bits(operands, count)
    equations.equal(count, left, packed(bits))
    return bits[:32]


def compress(builder: Builder, block: list[list[Bit]], state: list[list[Bit]]) -> list[list[Bit]]:
    """One block: 16 words and the state of 8 words -> the new state (sha256.rs)."""
    equations, xor = MultiEq(builder), builder.xor

    def xors(*words):
        total = words[0]
        for word in words[1:]:
            total = [xor(a, b) for a, b in zip(total, word)]
        return total

    w = list(block)
    for i in range(16, 64):
        s0 = xors(_rotate(w[i - 15], 7), _rotate(w[i - 15], 18), _shift(w[i - 15], 3))
        s1 = xors(_rotate(w[i - 2], 17), _rotate(w[i - 2], 19), _shift(w[i - 2], 10))
        w.append(_add_many(builder, equations, [w[i - 16], s0, w[i - 7], s1]))

    # a and e stay sums of operands until somebody needs their bits
    a, b, c, d, e, f, g, h = ([word] for word in state)

    def computed(operands, *more):
        operands = operands + list(more)
        return operands[0] if len(operands) == 1 else _add_many(builder, equations, operands)

    b, c, d, f, g, h = b[0], c[0], d[0], f[0], g[0], h[0]
    for i in range(64):
        new_e = computed(e)
        s1 = xors(_rotate(new_e, 6), _rotate(new_e, 11), _rotate(new_e, 25))
        ch = [builder.choose(x, y, z) for x, y, z in zip(new_e, f, g)]
        partial = [h, s1, ch, constant_word(ROUND_CONSTANTS[i]), w[i]]
        new_a = computed(a)
        s0 = xors(_rotate(new_a, 2), _rotate(new_a, 13), _rotate(new_a, 22))
        maj = [builder.majority(x, y, z) for x, y, z in zip(new_a, b, c)]
        h, g, f, e, d, c, b, a = g, f, new_e, partial + [d], c, b, new_a, partial + [s0, maj]
    out = [computed(a, state[0])]
    out += [_add_many(builder, equations, [x, y]) for x, y in ((b, state[1]), (c, state[2]), (d, state[3]))]
    out.append(computed(e, state[4]))
    out += [_add_many(builder, equations, [x, y]) for x, y in ((f, state[5]), (g, state[6]), (h, state[7]))]
    equations.flush()
    return out


def padding(length: int) -> list[Bit]:
    """What follows a message of `length` bits up to the end of its last block."""
    zeros = [FALSE] * ((447 - length) % 512)
    return [TRUE, *zeros, *(TRUE if length >> i & 1 else FALSE for i in range(63, -1, -1))]


def sha256(builder: Builder, message: list[Bit]) -> list[Bit]:
    """Digest bits of a message, both most significant bit of each byte first."""
    padded = message + padding(len(message))
    state = [constant_word(v) for v in INITIAL]
    for start in range(0, len(padded), 512):
        block = [padded[start + 32 * k:start + 32 * k + 32][::-1] for k in range(16)]
        state = compress(builder, block, state)
    return [bit for word in state for bit in word[::-1]]


def byte_reversed(bits: list[Bit]) -> list[Bit]:
    """Little-endian bits <-> big-endian within each byte."""
    return [bit for k in range(0, len(bits), 8) for bit in bits[k:k + 8][::-1]]


def to_bits(builder: Builder, element: int) -> list[Bit]:
    """255 bits of an element, then 0 · 0 = Σ 2^i b_i − element (bellpepper-core num.rs, to_bits_le)."""
    bits = builder.bits_of(element, 255)
    builder.enforce({}, {}, combine(packed(bits), {element: -1}))
    return bits


def tree_d_hash(coefficients: dict) -> Template:
    """Ports: two elements. SHA-256 of both, cut to 254 bits; the digest is the last variable.

    Source: filecoin-hashers src/sha256.rs, hash2_circuit.
    """
    builder = Builder("tree_d_hash", 0, 2, coefficients)
    message: list[Bit] = []
    for element in builder.element_ports:
        message += byte_reversed(to_bits(builder, element) + [FALSE])
    digest = byte_reversed(sha256(builder, message))
    builder.define(packed(digest[:CAPACITY]), {ONE: 1})
    return builder.finish()
