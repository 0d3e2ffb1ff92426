"""Groth16 verification by pairings (bellperson groth16/verifier.rs):

    e(A, B) · e(ic_0 + Σ input_i ic_{i+1}, -gamma) · e(C, -delta) = e(alpha, beta)
"""
from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
from py_arkworks_bls12381 import GT, G1Point, G2Point

from ..errors import Exit, fail
from ..params.format import VerifyingKey
from ..protocol.fr import R_ORDER, to_ints
from .encoding import PROOF_BYTES, decode_proof, scalar


class PreparedKey(NamedTuple):
    """What every verification under one key shares."""

    alpha_beta: GT
    minus_gamma: G2Point
    minus_delta: G2Point
    ic: list
    path: str | None


def prepare(key: VerifyingKey) -> PreparedKey:
    """Decode and check the key's points once. Raises CuzkError (PARAMETERS) for a bad point."""
    return PreparedKey(GT.pairing(key.alpha_g1, key.beta_g2), -key.gamma_g2, -key.delta_g2, key.ic, key.path)


def verify_proof(key: PreparedKey, public_inputs: np.ndarray, proof: bytes) -> bool:
    """Is `proof` (192 bytes) a proof for `public_inputs` (uint64[n, 4] canonical words, without ONE)?

    False also for bytes that are no proof at all and for inputs that are not below r. Raises CuzkError (PARAMETERS)
    when the key is for another number of inputs. About 2 ms, and more where there are thousands of inputs.
    """
    if len(public_inputs) + 1 != len(key.ic):
        raise fail(Exit.PARAMETERS, "compare the number of public inputs with the verifying key", key.path,
                   len(public_inputs) + 1, len(key.ic), "this is the key of another circuit")
    inputs = to_ints(public_inputs)
    if any(value >= R_ORDER for value in inputs):
        return False
    try:
        a, b, c = decode_proof(proof)
    except ValueError:
        return False
    statement = key.ic[0] + G1Point.multiexp_unchecked(key.ic[1:], [scalar(v) for v in inputs]) if inputs else key.ic[0]
    return GT.multi_pairing([a, statement, c], [b, key.minus_gamma, key.minus_delta]) == key.alpha_beta


def verify_partitions(key: PreparedKey, public_inputs: Sequence[np.ndarray], proof: bytes) -> list[bool]:
    """Verify a proof of several partitions, 192 bytes each, one after the other: a verdict for each.

    Raises ValueError when the length of `proof` is not that of len(public_inputs) partitions.
    """
    if len(proof) != PROOF_BYTES * len(public_inputs):
        raise ValueError(f"{len(proof)} bytes are not {PROOF_BYTES} for each of {len(public_inputs)} partitions")
    return [verify_proof(key, inputs, proof[PROOF_BYTES * k:PROOF_BYTES * (k + 1)])
            for k, inputs in enumerate(public_inputs)]
