"""Merkle gadgets and small glue, as storage-proofs-core writes them (src/gadgets/{insertion,por,constraint}.rs)."""
from __future__ import annotations

from .poseidon import permute
from .template import ONE, Bit, Builder, Template, combine, packed


def pick(builder: Builder, condition: Bit, a: int, b: int) -> int:
    """condition ? a : b by (b − a) · condition = b − c."""
    return builder.define(combine({b: 1}, {a: -1}), condition.terms(), {b: 1}, sign=-1)


def insert(builder: Builder, element: int, siblings: list[int], bits: list[Bit]) -> list[int]:
    """The siblings with `element` at the position that `bits` spell, least significant first."""
    choose = lambda condition, a, b: pick(builder, condition, a, b)
    if len(siblings) == 1:
        (b0,), (b,), a = bits, siblings, element
        return [choose(b0, b, a), choose(b0, a, b)]
    if len(siblings) == 3:
        (b0, b1), (b, c, d), a = bits, siblings, element
        p0 = choose(b1, b, choose(b0, b, a))
        p1 = choose(b1, c, choose(b0, a, b))
        p2 = choose(b1, choose(b0, d, a), c)
        p3 = choose(b1, choose(b0, a, d), d)
        return [p0, p1, p2, p3]
    (b0, b1, b2), (b, c, d, e, f, g, h), a = bits, siblings, element
    nor, both = builder.both(~b0, ~b1), builder.both(b0, b1)
    p0 = choose(b2, b, choose(nor, a, b))
    p1 = choose(b2, c, choose(b1, c, choose(b0, a, b)))
    p2 = choose(b2, d, choose(b1, choose(b0, d, a), c))
    p3 = choose(b2, e, choose(both, a, d))
    p4 = choose(b2, choose(nor, a, f), e)
    p5 = choose(b2, choose(b1, g, choose(b0, a, f)), f)
    p6 = choose(b2, choose(b1, choose(b0, h, a), g), g)
    p7 = choose(b2, choose(both, a, h), h)
    return [p0, p1, p2, p3, p4, p5, p6, p7]


def insert_pair(coefficients: dict) -> Template:
    """Ports: one bit; element, sibling. The ordered pair is the last two variables."""
    builder = Builder("insert_2", 1, 2, coefficients)
    element, sibling = builder.element_ports
    insert(builder, element, [sibling], builder.bit_ports)
    return builder.finish()


def merkle_level(arity: int, tag: int, coefficients: dict) -> Template:
    """Ports: log2(arity) bits; element, arity − 1 siblings. Insert and hash; the parent is the last variable."""
    builder = Builder(f"merkle_{arity}", arity.bit_length() - 1, arity, coefficients)
    element, *siblings = builder.element_ports
    permute(builder, insert(builder, element, siblings, builder.bit_ports), tag)
    return builder.finish()


def select(size: int, coefficients: dict) -> Template:
    """Ports: log2(size) bits, least significant first; `size` elements. The chosen one is the last variable."""
    builder = Builder(f"select_{size}", size.bit_length() - 1, size, coefficients)
    state = builder.element_ports
    for bit in reversed(builder.bit_ports):     # the most significant bit is consumed first
        half = len(state) // 2
        state = [pick(builder, bit, state[half + j], state[j]) for j in range(half)]
    return builder.finish()


def equal(coefficients: dict) -> Template:
    """Ports: two elements; a · 1 = b."""
    builder = Builder("equal", 0, 2, coefficients)
    a, b = builder.element_ports
    builder.enforce({a: 1}, {ONE: 1}, {b: 1})
    return builder.finish()


def elements(count: int, coefficients: dict) -> Template:
    """`count` elements from outside."""
    builder = Builder(f"elements_{count}", 0, 0, coefficients)
    for _ in range(count):
        builder.external()
    return builder.finish()


def public_element(coefficients: dict) -> Template:
    """An element from outside, made public."""
    builder = Builder("public_element", 0, 0, coefficients, inputs=1)
    builder.inputize(builder.external())
    return builder.finish()


def pack(builder: Builder, bits: list[Bit]) -> int:
    """A new element x; Σ 2^i b_i · 1 = x (bellperson multipack.rs, pack_bits)."""
    return builder.define(packed(bits), {ONE: 1})
