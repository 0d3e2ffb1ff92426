"""The quadratic extension Fq2 = Fq[u]/(u² + 1) on batches, with the interface of `Field` that curve formulas use.

An element is the list of limbs of c0 followed by those of c1.
"""
from __future__ import annotations

from .field import Field, materialise


class Quadratic:
    """Fq2 over a base field. Bounds are those of the base, with two products to a sum."""

    def __init__(self, base: Field):
        self.base, self.p, self.dtype, self.count = base, base.p, base.dtype, 2 * base.count

    def _split(self, a):
        return a[:self.base.count], a[self.base.count:]

    def _each(self, function, *lists) -> list:
        low, high = zip(*(self._split(v) for v in lists))
        return function(*low) + function(*high)

    def constant(self, value, shape) -> list:
        """(c0, c1) in every lane, Montgomery form."""
        c0, c1 = value if isinstance(value, tuple) else (value, 0)
        return self.base.constant(c0, shape) + self.base.constant(c1, shape)

    def product(self, *pairs) -> list:
        """Sum of a*b over the pairs; not materialised."""
        low, high = [], []
        for a, b in pairs:
            (a0, a1), (b0, b1) = self._split(a), self._split(b)
            if a is b:
                low.append((self.base.add(a0, a1), self.base.sub(a0, a1)))
                high.append((self.base.add(a0, a0), a1))
            else:
                low += [(a0, b0), (self.base.neg(a1), b1)]
                high += [(a0, b1), (a1, b0)]
        return self.base.product(*low) + self.base.product(*high)

    def materialise(self, v) -> list:
        """Two loops, one for each half."""
        return self._each(materialise, v)

    def mul(self, a, b) -> list:
        return self.materialise(self.product((a, b)))

    def square(self, a) -> list:
        return self.mul(a, a)

    add, sub, neg, select, all_zero = Field.add, Field.sub, Field.neg, Field.select, Field.all_zero

    def carry(self, v) -> list:
        return self._each(self.base.carry, v)

    def reduce(self, v) -> list:
        return self._each(self.base.reduce, v)

    def canonical(self, v) -> list:
        return self._each(self.base.canonical, v)

    def is_zero(self, v):
        a, b = self._split(v)
        return self.base.is_zero(a) & self.base.is_zero(b)

    def norm(self, a) -> list:
        """c0² + c1² in the base field."""
        a0, a1 = self._split(a)
        return materialise(self.base.product((a0, a0), (a1, a1)))

    def over_norm(self, a, inverse_norm) -> list:
        """The inverse of a, given that of its norm."""
        a0, a1 = self._split(a)
        return self.base.mul(a0, inverse_norm) + self.base.mul(self.base.neg(a1), inverse_norm)
