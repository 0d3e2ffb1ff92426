"""The blinding scalars r and s of a proof."""
from __future__ import annotations

import secrets

from ..params.trapdoor import hash_to_scalar
from ..protocol.fr import R_ORDER


def blinding() -> tuple[int, int]:
    """r and s, uniform mod the group order, from the system.

    They are for one attempt at one proof: never reuse, store or log them.
    """
    return secrets.randbelow(R_ORDER), secrets.randbelow(R_ORDER)


def insecure_blinding(seed: str, partition: int) -> tuple[int, int]:
    """r and s that a seed fixes, so that proofs can be compared byte for byte; they hide nothing of the witness."""
    return hash_to_scalar(f"{seed} r {partition}"), hash_to_scalar(f"{seed} s {partition}")
