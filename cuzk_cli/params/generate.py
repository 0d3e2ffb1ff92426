"""Make the parameters of a circuit from the secrets of a seed.

    tau ─► L_row(tau) ─► u, v, w of every column ─► scalars ─► fixed-base multiplication ─► points ─► file
                                                    └────── in chunks, while the last chunk is written ──────┘

    ic, l = (beta u + alpha v + w)/gamma, /delta     h_i = tau^i (tau^m - 1)/delta     a = u     b = v, zeros dropped

Source: bellperson groth16/generator.rs, with the standard generators.
"""
from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

from ..circuits.columns import evaluate_columns
from ..errors import Exit, fail
from . import digests
from .atomic import output_error, replacing
from .format import VECTORS, Counts
from .marker import generating
from .points import GENERATOR_G1, GENERATOR_G2, encode_g1, encode_g2, scalar
from .trapdoor import Trapdoor, combined_scalars, h_scalars, lagrange_at

CHUNK = 1 << 17     # points a call of the kernels: below a second each, 25 MB at most

Multiply = Callable[[np.ndarray], np.ndarray]       # uint64[n, 4] words, none zero -> uint8[n, 96 | 192], uncompressed


class FixedBase(NamedTuple):
    """Multiplication of the standard generators by many scalars."""

    g1: Multiply
    g2: Multiply
    chunk: int      # scalars a call that cost the least each; a call takes well below a second


def device_fixed_base() -> FixedBase:
    """The kernels'. Imports JAX, which `kernels.runtime.setup` must have configured."""
    from ..kernels import curve, fixed_base
    from ..kernels.devices import platform

    g1, g2 = curve.g1(platform()), curve.g2(platform())
    return FixedBase(lambda words: fixed_base.multiply(words, g1), lambda words: fixed_base.multiply(words, g2),
                     fixed_base.batch())


class Generated(NamedTuple):
    """What was written."""

    params: Path
    vk: Path
    bytes: int      # of the .params file
    digest: str     # of the .params file


class _Vectors(NamedTuple):
    """The scalars of one parameter file; `h` is computed chunk by chunk."""

    ic: np.ndarray
    l: np.ndarray
    a: np.ndarray
    b: np.ndarray


def _scalars(structure, columns: np.ndarray, trapdoor: Trapdoor) -> _Vectors:
    n = structure.n_inputs
    l = combined_scalars(trapdoor, columns[:, n:], trapdoor.delta)
    idle = np.flatnonzero(~l.any(axis=1))
    if len(idle):
        raise fail(Exit.PARAMETERS, f"generate the parameters of {structure.name}",
                   expected="every variable constrained", actual=f"{len(idle)} in no row, the first is aux {idle[0]}")
    u, v, _ = columns
    return _Vectors(combined_scalars(trapdoor, columns[:, :n], trapdoor.gamma), l, u[u.any(axis=1)], v[v.any(axis=1)])


def _key_bytes(trapdoor: Trapdoor, ic: np.ndarray, multiply: FixedBase) -> bytes:
    """The `.vk` file; no scalar of ic is zero, as every input has a row of its own."""
    g1 = {name: encode_g1(GENERATOR_G1 * scalar(getattr(trapdoor, name))) for name in ("alpha", "beta", "delta")}
    g2 = {name: encode_g2(GENERATOR_G2 * scalar(getattr(trapdoor, name))) for name in ("beta", "gamma", "delta")}
    return b"".join([g1["alpha"], g1["beta"], g2["beta"], g2["gamma"], g1["delta"], g2["delta"],
                     len(ic).to_bytes(4, "big"), multiply.g1(ic).tobytes()])


def _no_progress(done: int, total: int) -> None:
    pass


def _write(file, head: bytes, counts: Counts, chunks: dict, multiply: FixedBase, progress) -> str:
    """Write head and vectors, and hash them; returns the digest. chunks: name -> (start, count) -> scalars."""
    state = digests.new_hash()
    total = sum(getattr(counts, name) for name in VECTORS)
    done = 0

    def put(data) -> None:
        file.write(data)
        state.update(data)

    with ThreadPoolExecutor(1) as writer:
        pending = writer.submit(put, head)
        for name in VECTORS:
            count = getattr(counts, name)
            pending.result()
            pending = writer.submit(put, count.to_bytes(4, "big"))
            kernel = multiply.g2 if name == "b_g2" else multiply.g1
            for start in range(0, count, multiply.chunk):
                scalars = chunks[name](start, min(multiply.chunk, count - start))
                points = np.ascontiguousarray(kernel(scalars), dtype=np.uint8)
                assert points.shape == (len(scalars), VECTORS[name])
                pending.result()
                pending = writer.submit(put, memoryview(points).cast("B"))
                done += len(scalars)
                progress(done, total)
        pending.result()
    return digests.digest_text(state)


def check_space(folder, need: int) -> None:
    """Raises CuzkError (RESOURCES) where `folder` has not `need` bytes free, (OUTPUT) where it cannot be asked."""
    try:
        have = shutil.disk_usage(folder).free
    except OSError as error:
        raise output_error(error, "look for free space", folder) from None
    if have < need:
        raise fail(Exit.RESOURCES, "look for free space", folder, f"{need} bytes", f"{have} bytes", "free some space")


def write_parameters(structure, base: Path, trapdoor: Trapdoor, multiply: FixedBase, *,
                     evaluate: Callable = evaluate_columns,
                     progress: Callable[[int, int], None] = _no_progress) -> Generated:
    """Write BASE.vk and BASE.params for a circuit, each atomically.

    structure: n_inputs, n_aux, log_m, total_rows, name and the densities, as circuits.Structure. evaluate(structure,
    lagrange words) -> uint64[3, n_inputs + n_aux, 4]. progress(points done, points in all).
    Raises CuzkError: PARAMETERS for a variable in no row, RESOURCES and OUTPUT for the disk.
    """
    counts = Counts.of(structure)
    check_space(base.parent, counts.params_bytes + counts.vk_bytes)
    trapdoor.vanishing(structure.log_m)
    vectors = _scalars(structure, evaluate(structure, lagrange_at(trapdoor.tau, structure.log_m, structure.total_rows)),
                       trapdoor)
    found = counts._replace(a=len(vectors.a), b_g1=len(vectors.b), b_g2=len(vectors.b))
    assert found == counts, (found, counts)         # densities and columns come from the same rows
    head = _key_bytes(trapdoor, vectors.ic, multiply)

    def rows(words: np.ndarray):
        return lambda start, count: words[start:start + count]

    chunks = {"h": lambda start, count: h_scalars(trapdoor, structure.log_m, start, count), "l": rows(vectors.l),
              "a": rows(vectors.a), "b_g1": rows(vectors.b), "b_g2": rows(vectors.b)}
    params, vk = base.with_name(base.name + ".params"), base.with_name(base.name + ".vk")
    with replacing(params) as file:
        digest = _write(file, head, counts, chunks, multiply, progress)
    with replacing(vk) as file:
        file.write(head)
    digests.remember(params, digest)
    return Generated(params, vk, counts.params_bytes, digest)


def generate(structure, stem: str, folder, seed: str, multiply: FixedBase, *, only_missing: bool = False,
             waiting: Callable[[], None] = lambda: None, **options) -> Generated | None:
    """Make the files of one circuit in a folder of test parameters, which is made and marked as needed.

    stem: the network's file name without its ending. only_missing: leave a `.params` file that is there alone and
    return None. Existing files are replaced atomically otherwise. options: as `write_parameters`.
    Raises CuzkError as `marker.generating` and `write_parameters`.
    """
    with generating(folder, seed, waiting=waiting):
        base = Path(folder) / stem
        if only_missing and base.with_name(stem + ".params").exists():
            return None
        return write_parameters(structure, base, Trapdoor.of_seed(seed), multiply, **options)
