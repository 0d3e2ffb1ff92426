"""Is a parameter file what it should be: the circuit's lengths, the published digest, and every point in its group.

Each curve's equation is checked on the device as points are decoded. For the subgroup of order r, points are dealt to
tens of thousands of lanes in an order that nobody can foresee, each lane is summed on the device, and the sums are
checked one by one: a point outside the subgroup shows in its lane's sum unless another of the same lane cancels it,
which a file made for that achieves with a probability of one in the number of lanes.
"""
from __future__ import annotations

import os
from typing import Callable, NamedTuple

import numpy as np

from ..errors import Exit, fail
from ..protocol.table import KINDS, SIZES, parameter_stem
from . import digests
from .format import VECTORS, Counts, ParameterFile, VectorReader, VerifyingKey, read_verifying_key
from .locate import Circuit, Folder, Located, locate
from .marker import FILE_PREFIX
from .points import decode_g1, decode_g2

Progress = Callable[[int, int], None]


class Checked(NamedTuple):
    """What was found of one circuit's files."""

    counts: Counts
    size: int                   # bytes of the .params file
    digest: str
    vk: bool                    # is there a .vk file? It is the same as the head of the .params file


def check_files(located: Located, counts: Counts, progress: Progress = lambda done, total: None) -> Checked:
    """Size, lengths, verifying key and digest, which is remembered; progress is called with (done, total) bytes.

    Raises CuzkError (PARAMETERS) for what is missing, damaged, of another circuit, or not what the network published.
    """
    path = located.require_params(counts.params_bytes)
    with ParameterFile(path, counts) as file:
        key, size = file.verifying_key.check(), file.size
    found = os.path.lexists(located.vk)
    if found:
        _same_key(located, key, counts)
    digest = digests.remembered(path)
    if digest is None:
        digest = digests.digest_file(path, lambda done: progress(done, size))
        digests.remember(path, digest)
    published = located.circuit.params_digest
    if located.marker is None and published not in (None, digest):
        raise fail(Exit.PARAMETERS, "compare the digest with the published one", path, published, digest,
                   "the file is damaged, or is not the network's: fetch it again")
    return Checked(counts, size, digest, found)


def _same_key(located: Located, key: VerifyingKey, counts: Counts) -> None:
    if read_verifying_key(located.vk, counts.ic).raw != key.raw:
        raise fail(Exit.PARAMETERS, "compare the verifying key with the parameters", located.vk,
                   f"the first {len(key.raw)} bytes of {located.params.name}", "others",
                   "the two files are not of one set: fetch or generate both again")


def check_points(file: ParameterFile, progress: Progress = lambda done, total: None) -> int:
    """Every point of every vector, on the device; their number. progress: (points done, all points).

    Raises CuzkError (PARAMETERS) with the offset of a point that is not on its curve, at infinity or outside the
    subgroup of order r.
    """
    total, done = sum(getattr(file.counts, name) for name in VECTORS), 0
    for name in VECTORS:
        reader = file.reader(name)
        _check_vector(reader, lambda n, before=done: progress(before + n, total))
        done += len(reader)
    return total


def _order(seed: int, number: int, count: int) -> np.ndarray:
    """The order in which the points of a batch are dealt."""
    return np.random.Generator(np.random.PCG64([seed, number])).permutation(count)


def _check_vector(reader: VectorReader, progress: Callable[[int], None]) -> None:
    from ..kernels import curve, msm
    from ..kernels.devices import platform
    from ..kernels.points import BadPoint

    extension = reader.name == "b_g2"
    sums = msm.Summation((curve.g2 if extension else curve.g1)(platform()))
    decode, seed = decode_g2 if extension else decode_g1, int.from_bytes(os.urandom(16), "little")
    batches = [(start, min(sums.batch(), len(reader) - start)) for start in range(0, len(reader), sums.batch())]
    for number, (start, count) in enumerate(batches):
        order, encoded = _order(seed, number, count), reader(start, count)
        infinite = encoded[:, 0] == 0x40
        if infinite.any():
            raise reader.bad_point(start + int(np.argmax(infinite)), "the point at infinity")
        try:
            sums.add(encoded[order])
        except BadPoint as bad:
            raise reader.bad_point(start + int(order[bad.index]), bad.what) from None
        progress(start + count)
    bad = [lane for lane, encoded in enumerate(sums.lanes()) if not _decodes(decode, encoded)]
    for number, (start, count) in enumerate(batches if bad else []):
        order = _order(seed, number, count)
        for i in np.sort(order[np.isin(sums.dealt(count), bad)]):
            if not _decodes(decode, reader(start + int(i), 1)[0]):
                raise reader.bad_point(start + int(i), "a point outside the subgroup of order r")
    assert not bad, "a sum outside the subgroup of points that are all in it: the device computes wrongly"


def _decodes(decode: Callable, encoded: np.ndarray) -> bool:
    try:
        decode(encoded)
    except ValueError:
        return False
    return True


def listed(folder: Folder) -> list[dict]:
    """The parameter files of a folder, circuit by circuit, then those of circuits that are not known here.

    Raises CuzkError (PARAMETERS) for a folder that cannot be read.
    """
    try:
        names = sorted(name for name in os.listdir(folder.path)
                       if name.startswith(FILE_PREFIX) and name.endswith((".params", ".vk")))
    except OSError as error:
        raise fail(Exit.PARAMETERS, "look into the folder of parameters", folder.path, "a readable folder",
                   error.strerror) from None
    circuits = {parameter_stem(kind, size): (kind, size) for kind in KINDS for size in SIZES.values()}
    found = []
    for stem in sorted({os.path.splitext(name)[0] for name in names}, key=lambda s: (s not in circuits, s)):
        kind, size = circuits.get(stem, (None, None))
        entry = {"kind": kind, "sector_size": size and size.name}
        if kind is None:
            params, vk = folder.path / f"{stem}.params", folder.path / f"{stem}.vk"
            facts = {"digest": digests.remembered(params), "published_digest": None, "network_accepts": None}
        else:
            located = locate(Circuit.of(kind, size), folder)
            params, vk = located.params, located.vk
            facts = {"digest": located.digest, "published_digest": located.circuit.params_digest,
                     "network_accepts": located.network_accepts}
        has = lambda path: path.name in names
        found.append({**entry, "params": str(params) if has(params) else None,
                      "size_bytes": _size(params) if has(params) else None, "vk": str(vk) if has(vk) else None, **facts})
    return found


def _size(path) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None
