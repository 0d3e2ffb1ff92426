"""BLS12-381 points as parameter files hold them: uncompressed, big-endian, and as objects that can be added and paired.

    G1, 96 bytes:   x ‖ y                           48 bytes each
    G2, 192 bytes:  x.c1 ‖ x.c0 ‖ y.c1 ‖ y.c0       (blst src/e1.c, e2.c)

Infinity is the byte 0x40, then zeros. The objects are those of py-arkworks-bls12381, which puts c0 first and writes
infinity as zeros.
"""
from __future__ import annotations

from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from ..protocol.fr import R_ORDER

G1_BYTES, G2_BYTES = 96, 192
GENERATOR_G1, GENERATOR_G2 = G1Point(), G2Point()


def _swap(data: bytes) -> bytes:
    """c1 ‖ c0 <-> c0 ‖ c1 of both coordinates."""
    return data[48:96] + data[:48] + data[144:192] + data[96:144]


def _decode(data: bytes, size: int, kind, swap):
    """A point of `kind` from its uncompressed form; ValueError says what is wrong with it."""
    data = bytes(data)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, not {size}")
    if data[0] == 0x40 and not any(data[1:]):
        return kind.identity()
    if data[0] & 0xE0 or not any(data):
        raise ValueError("not an uncompressed point")
    try:
        return kind.from_xy_bytes_be(swap(data))
    except ValueError:
        pass
    try:
        kind.from_xy_bytes_unchecked_be(swap(data))
    except ValueError:
        raise ValueError("a point that is not on the curve") from None
    raise ValueError("a point outside the subgroup of order r")


def decode_g1(data: bytes) -> G1Point:
    """96 bytes -> point, curve and subgroup checked. Raises ValueError."""
    return _decode(data, G1_BYTES, G1Point, bytes)


def decode_g2(data: bytes) -> G2Point:
    """192 bytes -> point, curve and subgroup checked. Raises ValueError."""
    return _decode(data, G2_BYTES, G2Point, _swap)


def encode_g1(point: G1Point) -> bytes:
    """Point -> 96 bytes."""
    data = bytes(point.to_xy_bytes_be())
    return data if any(data) else b"\x40" + data[1:]


def encode_g2(point: G2Point) -> bytes:
    """Point -> 192 bytes."""
    data = _swap(bytes(point.to_xy_bytes_be()))
    return data if any(data) else b"\x40" + data[1:]


def scalar(value: int) -> Scalar:
    """An integer mod r as a factor of points."""
    return Scalar.from_le_bytes((value % R_ORDER).to_bytes(32, "little"))
