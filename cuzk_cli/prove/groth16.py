"""The Groth16 prover, as bellperson computes it.

    assignment ──► quotient (a·b − c)/Z ──► MSM over h ─────────────┐
        │                                                           │
        ├──► aux ──► MSM over l ────────────────────────────────────┤
        ├──► inputs, aux ──► MSM over a      ──► A                  ├──► C
        └──► inputs, aux ──► MSM over b_g1 and b_g2 ──► B ──────────┘

    A = alpha + Σ z_j a_j + r·delta
    B = beta + Σ z_j b_j + s·delta                                            (in G2)
    C = s·Σ z_j a_j + r·Σ z_j b_j + r·s·delta + s·alpha + r·beta + H + L      (bellperson, groth16/prover/native.rs)

What belongs to the circuit (`ProvingKey`) and what belongs to one witness (`Running`) are different objects. Nearly all
scalars but those of h are zero or one: zeros are never read, ones are summed, the rest is a multi-exponentiation.
"""
from __future__ import annotations

import math
import time
from concurrent.futures import Executor, Future
from typing import NamedTuple

import numpy as np

from ..kernels import curve, msm, points
from ..kernels.devices import platform
from ..kernels.quotient import quotient
from .encoding import Proof, g1_point, g2_point, scalar


class Query(NamedTuple):
    """The scalars of one vector of points: where they are one, and the others that are not zero."""

    ones: np.ndarray        # int64[k], ascending positions
    rest: np.ndarray        # int64[w], positions
    scalars: np.ndarray     # uint64[w, 4], canonical words


class ProvingKey(NamedTuple):
    """What proofs of one circuit share: its parameter file and where its variables stand in the file's vectors."""

    file: object            # params.ParameterFile
    log_m: int              # log2 of the domain
    a_aux: np.ndarray       # bool[n_aux]: does the aux variable occur in A?
    b_input: np.ndarray     # bool[n_inputs]
    b_aux: np.ndarray       # bool[n_aux]

    @classmethod
    def of(cls, structure, file) -> "ProvingKey":
        return cls(file, structure.log_m, structure.a_aux, structure.b_input, structure.b_aux)


class Running(NamedTuple):
    """A proof whose device work is queued."""

    key: ProvingKey
    pending: dict[str, Future]      # vector name -> affine point
    timings: dict                   # stage -> ms of device work, filled as stages end
    spans: list                     # (start, end) of each stage, seconds; they overlap where two threads work

    @property
    def device_ms(self) -> float:
        """Time in which a stage of this proof ran."""
        total, last = 0.0, -math.inf
        for start, end in sorted(self.spans):
            total += max(end - max(start, last), 0.0)
            last = max(last, end)
        return total * 1e3


def query(inputs: np.ndarray, input_density: np.ndarray, assignment, aux_density: np.ndarray | None) -> Query:
    """The scalars of a vector that holds the dense inputs first, then the dense aux variables.

    inputs: uint64[n, 4]; input_density: bool[n]; aux_density: bool[n_aux], None for all.
    """
    kept = inputs[input_density]
    small, positions, values = assignment.aux_small, assignment.aux_full_index, assignment.aux_full
    if aux_density is not None:
        rank = np.cumsum(aux_density, dtype=np.int64) - 1
        dense = aux_density[positions]
        positions, values = rank[positions[dense]], values[dense]
        small = small[aux_density]
    ones = np.flatnonzero(small == 1) + len(kept)
    rest = np.concatenate([np.arange(len(kept)), positions.astype(np.int64) + len(kept)])
    return Query(ones, rest, np.concatenate([kept, values]))


def _vectors(key: ProvingKey, assignment) -> dict[str, Query]:
    """The queries of l, a and b."""
    n = len(assignment.inputs)
    b = query(assignment.inputs, key.b_input, assignment, key.b_aux)
    return {
        "l": query(assignment.inputs, np.zeros(n, bool), assignment, None),
        "a": query(assignment.inputs, np.ones(n, bool), assignment, key.a_aux),
        "b_g1": b, "b_g2": b,
    }


def gpu_prove_start(key: ProvingKey, assignment, device: Executor, beside: Executor | None = None,
                    frugal: bool = False) -> Running:
    """Queue one partition's work on `device`, a thread that owns JAX, in the order in which it will run: the
    transforms, then the multi-exponentiation over h. Those of the witness are queued on `beside`, a second such thread
    if there is one: the host part of either fills the gaps of the other. frugal: one thread after all, and chunks that
    need less of the device's memory. Returns when all is queued."""
    timings, spans = {}, []
    beside = device if frugal else beside or device

    def timed(thread: Executor, name: str, function, *args):
        def run():
            started = time.perf_counter()
            try:
                return function(*args)
            except points.BadPoint as bad:
                raise key.file.bad_point(name, bad.index, bad.what) from None
            finally:
                ended = time.perf_counter()
                spans.append((started, ended))
                timings[f"{name}_ms"] = (ended - started) * 1e3
        return thread.submit(run)

    g1, g2, pending = curve.g1(platform()), curve.g2(platform()), {}
    h = timed(device, "quotient", quotient, assignment.a, assignment.b, assignment.c, key.log_m)
    for name, (ones, rest, scalars) in _vectors(key, assignment).items():
        read = key.file.reader(name)
        group = g2 if name == "b_g2" else g1
        pending[name] = timed(beside, name, msm.sparse, read, len(read), ones, rest, scalars, group)
    pending["h"] = timed(device, "h", lambda: msm.dense(key.file.reader("h"), h.result(), g1, frugal))
    return Running(key, pending, timings, spans)


def gpu_prove_finish(running: Running, r: int, s: int) -> Proof:
    """Wait for the device and combine; r and s are the blinding scalars, below the group order.

    Raises CuzkError (PARAMETERS) for a point of the parameter file that is not on its curve.
    """
    found = {name: future.result() for name, future in running.pending.items()}
    sums = {name: (g2_point if name == "b_g2" else g1_point)(point) for name, point in found.items()}
    vk = running.key.file.verifying_key
    fr, fs, frs = scalar(r), scalar(s), scalar(r) * scalar(s)
    a = vk.alpha_g1 + sums["a"] + vk.delta_g1 * fr
    b = vk.beta_g2 + sums["b_g2"] + vk.delta_g2 * fs
    c = sums["a"] * fs + sums["b_g1"] * fr + vk.delta_g1 * frs + vk.alpha_g1 * fs + vk.beta_g1 * fr
    return Proof(a, b, c + sums["h"] + sums["l"])
