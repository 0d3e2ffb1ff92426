"""The groups G1 and G2 of BLS12-381: constants, arithmetic on Python integers, and complete formulas on batches.

A row of a point table is x then y in Montgomery limbs; a row of zeros (y = 0, which no point of either curve has) is
the point at infinity. Host points are affine: (x, y), for G2 with coordinates (c0, c1), or None for infinity.
"""
from __future__ import annotations

import functools

import numpy as np

from .field import Q_PRIME as P
from .field import R_ORDER, base_field
from .fq2 import Quadratic


class HostFq:
    """Fq on Python integers."""

    zero, one = 0, 1
    add = staticmethod(lambda a, b: (a + b) % P)
    sub = staticmethod(lambda a, b: (a - b) % P)
    mul = staticmethod(lambda a, b: a * b % P)
    inverse = staticmethod(lambda a: pow(a, -1, P))


class HostFq2:
    """Fq2 on pairs of Python integers."""

    zero, one = (0, 0), (1, 0)
    add = staticmethod(lambda a, b: ((a[0] + b[0]) % P, (a[1] + b[1]) % P))
    sub = staticmethod(lambda a, b: ((a[0] - b[0]) % P, (a[1] - b[1]) % P))
    mul = staticmethod(lambda a, b: ((a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P))

    @staticmethod
    def inverse(a):
        n = pow(a[0] * a[0] + a[1] * a[1], -1, P)
        return a[0] * n % P, -a[1] * n % P


class Group:
    """One of the two groups. `field` holds batches, `host` single coordinates; y² = x³ + b."""

    def __init__(self, name: str, field, host, b, generator):
        self.name, self.field, self.host, self.b, self.generator = name, field, host, b, generator
        self.triple_b = host.mul(b, (3, 0)) if host is HostFq2 else 3 * b
        self.extension = host is HostFq2
        self.coordinate_bytes = 96 if self.extension else 48
        self.point_bytes = 2 * self.coordinate_bytes

    # ---- single points on the host, homogeneous projective (x, y, z)
    def add(self, p, q):
        """Complete addition (Renes, Costello, Batina 2016, algorithm 7, a = 0)."""
        h = self.host
        (x1, y1, z1), (x2, y2, z2) = p, q
        t0, t1, t2 = h.mul(x1, x2), h.mul(y1, y2), h.mul(z1, z2)
        t3 = h.sub(h.mul(h.add(x1, y1), h.add(x2, y2)), h.add(t0, t1))
        t4 = h.sub(h.mul(h.add(y1, z1), h.add(y2, z2)), h.add(t1, t2))
        w = h.sub(h.mul(h.add(x1, z1), h.add(x2, z2)), h.add(t0, t2))
        u, t2, w = h.add(t0, h.add(t0, t0)), h.mul(self.triple_b, t2), h.mul(self.triple_b, w)
        z, t1 = h.add(t1, t2), h.sub(t1, t2)
        return (h.sub(h.mul(t3, t1), h.mul(t4, w)), h.add(h.mul(t1, z), h.mul(w, u)), h.add(h.mul(z, t4), h.mul(u, t3)))

    @property
    def identity(self):
        return self.host.zero, self.host.one, self.host.zero

    def projective(self, point):
        return self.identity if point is None else (*point, self.host.one)

    def affine(self, p):
        """(x, y), None for infinity."""
        if p[2] == self.host.zero:
            return None
        i = self.host.inverse(p[2])
        return self.host.mul(p[0], i), self.host.mul(p[1], i)

    def multiply(self, k: int, point=None):
        """k times `point` (the generator if None), affine."""
        total, base, k = self.identity, self.projective(self.generator if point is None else point), k % R_ORDER
        while k:
            if k & 1:
                total = self.add(total, base)
            base, k = self.add(base, base), k >> 1
        return self.affine(total)

    # ---- rows
    def rows(self, points) -> np.ndarray:
        """Affine host points -> table rows [n, 2 * count]."""
        base = self.field.base if self.extension else self.field
        parts = []
        for c in range(2):
            values = [self.host.zero if p is None else p[c] for p in points]
            parts += [[v[k] for v in values] for k in range(2)] if self.extension else [values]
        return np.concatenate([base.to_limbs(part) for part in parts]).T.copy()

    def coordinate(self, limbs):
        """Limbs [count] of one lane -> host coordinate."""
        base = self.field.base if self.extension else self.field
        n = base.count
        values = [base.to_ints(np.asarray(limbs[k:k + n])[:, None])[0] for k in range(0, len(limbs), n)]
        return tuple(values) if self.extension else values[0]

    def times_triple_b(self, v) -> list:
        """3b times a batch: 12 v, or 12 (1 + u) v, with limbs below 12·2^(width − 1); those of v are below 2^width.

        Carries go between, since 12·2^width is more than the int32 form has room for.
        """
        f = self.field
        if not self.extension:
            return [12 * a for a in f.carry(v)]
        n = f.base.count
        double = [2 * (a - b) for a, b in zip(v[:n], v[n:])] + [2 * (a + b) for a, b in zip(v[:n], v[n:])]
        return [6 * a for a in f.carry(double)]

    def complete_add(self, p, q) -> list:
        """Complete addition of projective batches, right for every pair of points; the formulas of `add`."""
        f = self.field
        (x1, y1, z1), (x2, y2, z2) = p, q
        tidy = lambda v: f.materialise(f.carry(v))
        cross = lambda a, b, c, d, s, t: tidy(f.sub(f.sub(f.product((f.add(a, b), f.add(c, d))), s), t))
        t0, t1, t2 = f.mul(x1, x2), f.mul(y1, y2), f.mul(z1, z2)
        t3, t4 = cross(x1, y1, x2, y2, t0, t1), cross(y1, z1, y2, z2, t1, t2)
        w = tidy(self.times_triple_b(cross(x1, z1, x2, z2, t0, t2)))
        t2 = self.times_triple_b(t2)
        u, z, t1 = tidy([3 * v for v in t0]), tidy(f.add(t1, t2)), tidy(f.sub(t1, t2))
        x = f.materialise(f.product((t3, t1), (f.neg(t4), w)))
        y = f.materialise(f.product((t1, z), (w, u)))
        return [x, y, f.materialise(f.product((z, t4), (u, t3)))]


@functools.cache
def g1(platform: str = "cpu") -> Group:
    """G1: y² = x³ + 4 over Fq (blst, e1)."""
    return Group("g1", base_field(platform), HostFq, 4, (
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1))


@functools.cache
def g2(platform: str = "cpu") -> Group:
    """G2: y² = x³ + 4(1 + u) over Fq2 (blst, e2)."""
    return Group("g2", Quadratic(base_field(platform)), HostFq2, (4, 4), (
        (0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
         0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E),
        (0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
         0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE)))
