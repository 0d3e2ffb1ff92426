"""Groth16 verification by pairings (bellperson groth16/verifier.rs):

    e(A, B) · e(ic_0 + Σ input_i ic_{i+1}, -gamma) · e(C, -delta) = e(alpha, beta)
"""
from __future__ import annotations

import secrets
from typing import NamedTuple, Sequence

import numpy as np
from py_arkworks_bls12381 import GT, G1Point, G2Point

from ..errors import Exit, fail
from ..params.format import VerifyingKey
from ..protocol.fr import R_ORDER, to_ints
from .encoding import PROOF_BYTES, Proof, decode_proof, scalar


class PreparedKey(NamedTuple):
    """What every verification under one key shares."""

    alpha_beta: GT
    alpha: G1Point
    minus_beta: G2Point
    minus_gamma: G2Point
    minus_delta: G2Point
    ic: list
    path: str | None


def prepare(key: VerifyingKey) -> PreparedKey:
    """Decode and check the key's points once. Raises CuzkError (PARAMETERS) for a bad point."""
    return PreparedKey(GT.pairing(key.alpha_g1, key.beta_g2), key.alpha_g1, -key.beta_g2, -key.gamma_g2,
                       -key.delta_g2, key.ic, key.path)


def _statement(key: PreparedKey, inputs: list[int], one: int = 1) -> G1Point:
    """one · ic_0 + Σ input_i · ic_{i+1}."""
    return G1Point.multiexp_unchecked(key.ic, [scalar(v) for v in (one, *inputs)])


def _read(key: PreparedKey, public_inputs: np.ndarray, proof: bytes) -> tuple[list[int], Proof] | None:
    """Inputs as integers and the proof's points; None for inputs that are not below r and for bytes that are no proof.

    Raises CuzkError (PARAMETERS).
    """
    if len(public_inputs) + 1 != len(key.ic):
        raise fail(Exit.PARAMETERS, "compare the number of public inputs with the verifying key", key.path,
                   len(public_inputs) + 1, len(key.ic), "this is the key of another circuit")
    inputs = to_ints(public_inputs)
    if any(value >= R_ORDER for value in inputs):
        return None
    try:
        return inputs, decode_proof(proof)
    except ValueError:
        return None


def verify_proof(key: PreparedKey, public_inputs: np.ndarray, proof: bytes) -> bool:
    """Is `proof` (192 bytes) a proof for `public_inputs` (uint64[n, 4] canonical words, without ONE)?

    False also for bytes that are no proof at all and for inputs that are not below r. Raises CuzkError (PARAMETERS)
    when the key is for another number of inputs. About 2 ms, and more where there are thousands of inputs.
    """
    found = _read(key, public_inputs, proof)
    if found is None:
        return False
    inputs, (a, b, c) = found
    return GT.multi_pairing([a, _statement(key, inputs), c], [b, key.minus_gamma, key.minus_delta]) == key.alpha_beta


def verify_batch(key: PreparedKey, public_inputs: Sequence[np.ndarray], proofs: Sequence[bytes]) -> bool:
    """Do all proofs hold? One random linear combination of their equations, with 128 random bits z_j for each:

        Π e(z_j A_j, B_j) · e(Σ z_j statement_j, -gamma) · e(Σ z_j C_j, -delta) · e(Σ z_j alpha, -beta) = 1

    A set with a proof that does not hold passes with probability 2^-128. Raises CuzkError as `verify_proof`.
    """
    found = [_read(key, inputs, proof) for inputs, proof in zip(public_inputs, proofs, strict=True)]
    if None in found:
        return False
    if not found:
        return True
    weights = [1 + secrets.randbelow(1 << 128) for _ in found]
    sums = [0] * (len(key.ic) - 1)
    for z, (inputs, _) in zip(weights, found):
        sums = [(total + z * value) % R_ORDER for total, value in zip(sums, inputs)]
    left = [proof.a * scalar(z) for z, (_, proof) in zip(weights, found)]
    c = G1Point.multiexp_unchecked([proof.c for _, proof in found], [scalar(z) for z in weights])
    return GT.pairing_check([*left, _statement(key, sums, sum(weights)), c, key.alpha * scalar(sum(weights))],
                            [*(proof.b for _, proof in found), key.minus_gamma, key.minus_delta, key.minus_beta])


def verify_partitions(key: PreparedKey, public_inputs: Sequence[np.ndarray], proof: bytes) -> list[bool]:
    """Verify a proof of several partitions, 192 bytes each, one after the other: a verdict for each.

    They are verified as one; only where that fails each alone. Raises ValueError when the length of `proof` is not that
    of len(public_inputs) partitions, CuzkError as `verify_proof`.
    """
    if len(proof) != PROOF_BYTES * len(public_inputs):
        raise ValueError(f"{len(proof)} bytes are not {PROOF_BYTES} for each of {len(public_inputs)} partitions")
    parts = [proof[PROOF_BYTES * k:PROOF_BYTES * (k + 1)] for k in range(len(public_inputs))]
    if len(parts) > 1 and verify_batch(key, public_inputs, parts):
        return [True] * len(parts)
    return [verify_proof(key, inputs, part) for inputs, part in zip(public_inputs, parts)]
