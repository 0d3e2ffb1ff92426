"""Poseidon in constraints: neptune's legacy circuit (src/circuit.rs), with its lazily summed linear combinations."""
from __future__ import annotations

from ..protocol import poseidon as native
from ..protocol.fr import R_ORDER
from .template import ONE, Builder, Template, combine


def _quintic(builder: Builder, value: dict, pre: int | None, post: int | None) -> dict:
    """x^5 of (value + pre), plus post: three rows; returns the new variable."""
    shifted = combine(value, {ONE: pre}) if pre is not None else value
    square = builder.define(shifted, shifted)
    fourth = builder.define({square: 1}, {square: 1})
    # l · l4 = res − post
    fifth = builder.define(shifted, {fourth: 1}, {ONE: -post} if post is not None else None)
    return {fifth: 1}


def _allocated(builder: Builder, value: dict) -> dict:
    """LC · 1 = l for a new l."""
    return {builder.define(value, {ONE: 1}): 1}


def _mix(state: list[dict], matrix) -> list[dict]:
    """Row vector times matrix on linear combinations."""
    out = []
    for j in range(len(state)):
        total: dict = {}
        for terms, row in zip(state, matrix):
            for column, value in terms.items():
                total[column] = (total.get(column, 0) + value * row[j]) % R_ORDER
        out.append({column: value for column, value in total.items() if value})
    return out


def _mix_sparse(state: list[dict], w_hat, v_rest) -> list[dict]:
    """Element 0 is a dense product, element j gains v_rest[j−1] times element 0."""
    first: dict = {}
    for terms, weight in zip(state, w_hat):
        for column, value in terms.items():
            first[column] = (first.get(column, 0) + value * weight) % R_ORDER
    rest = [combine(terms, (state[0], weight)) for terms, weight in zip(state[1:], v_rest)]
    return [first] + rest


def permute(builder: Builder, inputs: list[int], tag: int) -> int:
    """The digest of allocated elements: the last variable allocated."""
    c = native.constants(len(inputs))
    t, keys = c.width, iter(c.keys)
    pre = [next(keys) for _ in range(t)]
    state: list[dict] = [{ONE: tag}] + [{x: 1} for x in inputs]

    for r in range(4):
        post = [next(keys) for _ in range(t)]
        if r == 0:
            # the tag is a constant, and so is its S-box
            first = {ONE: (pow(tag + pre[0], 5, R_ORDER) + post[0]) % R_ORDER}
            state = [first] + [_quintic(builder, state[i], pre[i], post[i]) for i in range(1, t)]
        else:
            state = [_quintic(builder, _allocated(builder, state[i]), None, post[i]) for i in range(t)]
        state = _mix(state, c.pre_sparse if r == 3 else c.mds)
    for w_hat, v_rest in c.sparse:
        state[0] = _quintic(builder, _allocated(builder, state[0]), None, next(keys))
        state = _mix_sparse(state, w_hat, v_rest)
    for r in range(4):
        post = [next(keys) if r < 3 else None for _ in range(t)]
        state = [_quintic(builder, _allocated(builder, state[i]), None, post[i]) for i in range(t)]
        state = _mix(state, c.mds)
    return builder.define(state[1], {ONE: 1})


def poseidon_hash(arity: int, tag: int, coefficients: dict) -> Template:
    """Ports: `arity` elements. The digest is the last variable."""
    builder = Builder(f"poseidon_{arity}", 0, arity, coefficients)
    permute(builder, builder.element_ports, tag)
    return builder.finish()
