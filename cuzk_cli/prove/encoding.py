"""Points and proofs between integers, objects that can be added and paired, and compressed bytes.

A proof is A(48) ‖ B(96) ‖ C(48), compressed (bellperson groth16/proof.rs). G2 coordinates are pairs (c0, c1) here and
are written c1 first. Objects are those of py-arkworks-bls12381.
"""
from __future__ import annotations

from typing import NamedTuple

from py_arkworks_bls12381 import G1Point, G2Point

from ..params.points import encode_g1, encode_g2, scalar
from ..protocol.table import PROOF_BYTES

__all__ = ["PROOF_BYTES", "Proof", "decode_proof", "g1_affine", "g1_point", "g2_affine", "g2_point", "scalar"]

_PARTS = {"A": (0, 48, G1Point), "B": (48, 144, G2Point), "C": (144, 192, G1Point)}


class Proof(NamedTuple):
    """A, B, C as points."""

    a: G1Point
    b: G2Point
    c: G1Point

    def to_bytes(self) -> bytes:
        """The 192 bytes."""
        return b"".join(bytes(point.to_compressed_bytes()) for point in self)


def decode_proof(data: bytes) -> Proof:
    """192 bytes -> proof. Raises ValueError for another length, and for points that are no points, infinite or outside
    the subgroup."""
    data = bytes(data)
    if len(data) != PROOF_BYTES:
        raise ValueError(f"a proof has {PROOF_BYTES} bytes, not {len(data)}")
    points = []
    for name, (start, end, kind) in _PARTS.items():
        if not data[start] & 0x80:
            raise ValueError(f"{name} is not compressed")
        if data[start] & 0x40:
            raise ValueError(f"{name} is the point at infinity")
        try:
            points.append(kind.from_compressed_bytes(data[start:end]))
        except ValueError:
            raise ValueError(f"{name} is not a point of the group") from None
    return Proof(*points)


def g1_point(affine: tuple | None) -> G1Point:
    """(x, y) as integers, None for infinity -> point. Raises ValueError off the curve; the subgroup is not checked."""
    if affine is None:
        return G1Point.identity()
    return G1Point.from_xy_bytes_unchecked_be(b"".join(v.to_bytes(48, "big") for v in affine))


def g2_point(affine: tuple | None) -> G2Point:
    """((x0, x1), (y0, y1)) as integers, None for infinity -> point. Raises ValueError as `g1_point`."""
    if affine is None:
        return G2Point.identity()
    return G2Point.from_xy_bytes_unchecked_be(b"".join(v.to_bytes(48, "big") for pair in affine for v in pair))


def g1_affine(point: G1Point) -> tuple | None:
    """Point -> (x, y) as integers, None for infinity."""
    data = encode_g1(point)
    return None if data[0] & 0x40 else (int.from_bytes(data[:48], "big"), int.from_bytes(data[48:], "big"))


def g2_affine(point: G2Point) -> tuple | None:
    """Point -> ((x0, x1), (y0, y1)) as integers, None for infinity."""
    data = encode_g2(point)
    if data[0] & 0x40:
        return None
    x1, x0, y1, y0 = (int.from_bytes(data[i:i + 48], "big") for i in range(0, 192, 48))
    return (x0, x1), (y0, y1)
