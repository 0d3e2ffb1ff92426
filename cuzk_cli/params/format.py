"""bellperson's parameter files: `.vk`, and `.params`, which begins with the bytes of its `.vk`.

    vk      alpha_g1 96 | beta_g1 96 | beta_g2 192 | gamma_g2 192 | delta_g1 96 | delta_g2 192 | ic: u32 count, n x 96
    params  vk | h | l | a | b_g1 (96 each) | b_g2 (192 each), every vector a u32 count and its points

Counts are big-endian; points are described in `points`. Sources: bellperson groth16/{verifying_key,params}.rs.

Files are read with `pread` into memory of ours, never mapped: a file that is cut off under a mapping kills the process.
"""
from __future__ import annotations

import os
import stat
import struct
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, fail
from .points import G1_BYTES, G2_BYTES, decode_g1, decode_g2

VECTORS = {"h": G1_BYTES, "l": G1_BYTES, "a": G1_BYTES, "b_g1": G1_BYTES, "b_g2": G2_BYTES}     # in file order
_COUNT = struct.Struct(">I")
_FIXED = {"alpha_g1": (0, 96), "beta_g1": (96, 96), "beta_g2": (192, 192), "gamma_g2": (384, 192),
          "delta_g1": (576, 96), "delta_g2": (672, 192)}
_IC_COUNT = 864
VK_FIXED_BYTES = _IC_COUNT + _COUNT.size
_SMALL = 1024           # a file below this size is never a parameter file: its text tells what it is
_FIRST_BYTE = 0x1A      # of a coordinate below q at most


class Counts(NamedTuple):
    """Lengths of the vectors of one circuit's parameters."""

    ic: int
    h: int
    l: int
    a: int
    b_g1: int
    b_g2: int

    @classmethod
    def of(cls, structure) -> "Counts":
        """From a circuit's structure: `n_inputs`, `n_aux`, `log_m` and the densities `a_aux`, `b_input`, `b_aux`."""
        b = int(np.count_nonzero(structure.b_input)) + int(np.count_nonzero(structure.b_aux))
        a = structure.n_inputs + int(np.count_nonzero(structure.a_aux))
        return cls(structure.n_inputs, (1 << structure.log_m) - 1, structure.n_aux, a, b, b)

    @property
    def vk_bytes(self) -> int:
        """Size of the `.vk` file."""
        return VK_FIXED_BYTES + G1_BYTES * self.ic

    @property
    def params_bytes(self) -> int:
        """Size of the `.params` file."""
        return self.vk_bytes + sum(_COUNT.size + width * getattr(self, name) for name, width in VECTORS.items())


class VerifyingKey:
    """A verifying key. Points are decoded, and checked for curve and subgroup, when they are first asked for.

    Attributes alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2 are points, `ic` a list of G1 points, one per
    public input (ONE first), `raw` the bytes as in the file. Raises CuzkError (PARAMETERS) for a bad point.
    """

    def __init__(self, raw: bytes, path=None):
        self.raw, self.path = bytes(raw), path
        self.ic_count = _COUNT.unpack_from(self.raw, _IC_COUNT)[0]
        assert len(self.raw) == VK_FIXED_BYTES + G1_BYTES * self.ic_count

    def __getattr__(self, name: str):
        if name not in _FIXED:
            raise AttributeError(name)
        offset, size = _FIXED[name]
        point = self._point(name, offset, size)
        self.__dict__[name] = point
        return point

    @cached_property
    def ic(self) -> list:
        return [self._point(f"ic[{i}]", VK_FIXED_BYTES + G1_BYTES * i, G1_BYTES) for i in range(self.ic_count)]

    def _point(self, name: str, offset: int, size: int):
        try:
            point = (decode_g1 if size == G1_BYTES else decode_g2)(self.raw[offset:offset + size])
            if point == type(point).identity():
                raise ValueError("the point at infinity")
            return point
        except ValueError as error:
            raise fail(Exit.PARAMETERS, f"read {name} at offset {offset}", self.path, "a point of the group",
                       str(error), "the file is damaged: fetch or generate it again") from None

    def check(self) -> "VerifyingKey":
        """Decode every point now."""
        for name in (*_FIXED, "ic"):
            getattr(self, name)
        return self


class VectorReader:
    """One vector of a parameter file: `reader(start, count)` reads points, `len(reader)` is its length."""

    def __init__(self, file: "ParameterFile", name: str):
        self.file, self.name, self.width = file, name, VECTORS[name]

    def __len__(self) -> int:
        return getattr(self.file.counts, self.name)

    def __call__(self, start: int, count: int) -> np.ndarray:
        """Points start .. start + count, uint8[count, width]. Raises CuzkError as `ParameterFile.read_points`."""
        return self.file.read_points(self.name, start, count)

    def bad_point(self, index: int, what: str = "a point that is not on the curve") -> CuzkError:
        """The error to raise when point `index` of this vector turns out to be wrong."""
        return self.file.bad_point(self.name, index, what)


class _Source:
    """A file open for positioned reads that notices when it changes."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self.fd = -1
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)    # a named pipe must not block
            status = os.fstat(self.fd)
        except OSError as error:
            self.close()
            raise self.unreadable(error, 0) from None
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise fail(Exit.PARAMETERS, "open", self.path, "a file", "something that is not a regular file")
        self.size = status.st_size
        self.identity = _identity(status)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def unreadable(self, error: OSError, offset: int) -> CuzkError:
        what = "open" if self.fd < 0 else f"read at offset {offset}"
        hint = {
            "FileNotFoundError": "fetch the network's parameters, or name their folder with --params",
            "PermissionError": "check the permissions of the file and of its folders",
        }.get(type(error).__name__, None if self.fd < 0 else "check the disk and the mount below this file")
        return fail(Exit.PARAMETERS, what, self.path, "a readable file", error.strerror, hint)

    def read(self, offset: int, out: memoryview) -> None:
        """Fill `out` from `offset`, then see that the file is still the one that was opened."""
        done = 0
        while done < len(out):
            try:
                got = os.preadv(self.fd, [out[done:done + (1 << 30)]], offset + done)
            except OSError as error:
                raise self.unreadable(error, offset + done) from None
            if got == 0:
                raise self.truncated(offset + done)
            done += got
        self.check(offset)

    def check(self, offset: int) -> None:
        """Raises CuzkError when the file was replaced, changed or cut off since it was opened."""
        try:
            now, named = os.fstat(self.fd), os.stat(self.path)
        except OSError as error:
            raise self.unreadable(error, offset) from None
        if now.st_size < self.size:
            raise self.truncated(now.st_size)
        if _identity(named) != self.identity or _identity(now) != self.identity:
            raise fail(Exit.PARAMETERS, f"read at offset {offset}", self.path, "the file that was opened",
                       "another one: it was replaced or changed meanwhile", "start again when nothing writes to it")

    def truncated(self, offset: int) -> CuzkError:
        return fail(Exit.PARAMETERS, f"read at offset {offset}", self.path, f"{self.size} bytes",
                    "the end of the file: it was cut off meanwhile", "fetch or generate it again")


def _identity(status: os.stat_result) -> tuple:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _refuse_small(source: _Source) -> None:
    """A gateway's error page or the head of a broken download, saved under the name of a parameter file."""
    head = bytearray(min(source.size, _SMALL))
    source.read(0, memoryview(head))
    lines = [line.strip() for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    text = lines[0] if lines else ""
    printable = bool(text) and "\ufffd" not in text and text.isprintable()
    if source.size >= VK_FIXED_BYTES and head[0] <= _FIRST_BYTE and not (printable and source.size < _SMALL):
        return
    what = f"{source.size} bytes"
    if printable:
        what += f" that begin with {text[:120]!r}"
    elif head and head[0] > _FIRST_BYTE:
        what += " that do not begin with a point"
    raise fail(Exit.PARAMETERS, "read the head", source.path, "Groth16 parameters", what,
               "an interrupted download, or an error page saved in place of the file: fetch it again")


_MOST_INPUTS = 1 << 20      # of a circuit: WindowPoSt of 32 GiB has 25,840


def _read_count(source: _Source, offset: int, name: str, room: int, width: int) -> int:
    """A vector's length, known to fit into the file."""
    buffer = bytearray(_COUNT.size)
    left = source.size - offset
    if left >= _COUNT.size:
        source.read(offset, memoryview(buffer))
        count = _COUNT.unpack(buffer)[0]
        if offset + _COUNT.size + count * width + room <= source.size:
            return count
        expected = f"at least {offset + _COUNT.size + count * width + room} bytes, for {count} points in {name}"
    else:
        expected = f"at least {offset + _COUNT.size + room} bytes"
    raise fail(Exit.PARAMETERS, f"read the length of {name} at offset {offset}", source.path, expected,
               f"{source.size} bytes", "the file is cut off, or is none of this kind: fetch it again")


def _read_head(source: _Source, room: int, ic: int | None) -> VerifyingKey:
    """The verifying key at the start of a file that must hold `room` bytes more, for `ic` inputs where that is known."""
    _refuse_small(source)
    count = _read_count(source, _IC_COUNT, "ic", room, G1_BYTES)
    if count != (min(count, _MOST_INPUTS) if ic is None else ic):
        raise _mismatch(source.path, "ic", _MOST_INPUTS if ic is None else ic, count)
    raw = bytearray(VK_FIXED_BYTES + G1_BYTES * count)
    source.read(0, memoryview(raw))
    return VerifyingKey(raw, source.path)


def _mismatch(path: str, name: str, expected: int, actual: int) -> CuzkError:
    return fail(Exit.PARAMETERS, f"compare the length of {name} with the circuit", path, expected, actual,
                "these are the parameters of another circuit")


def read_verifying_key(path, ic: int | None = None) -> VerifyingKey:
    """The key in a `.vk` file, or at the head of a `.params` file; `ic`: the number of inputs that it must be for.

    Raises CuzkError (PARAMETERS) for a file that is missing, unreadable, cut off, too long or of another circuit.
    """
    source = _Source(path)
    try:
        if source.path.endswith(".params"):
            key = _read_head(source, 0, ic)
        else:
            key = _read_head(source, 0, ic)
            if len(key.raw) != source.size:
                raise fail(Exit.PARAMETERS, "compare the size with the counts", source.path,
                           f"{len(key.raw)} bytes", f"{source.size} bytes", "the file is damaged: fetch it again")
    finally:
        source.close()
    return key


class ParameterFile:
    """An open `.params` file. A context manager; reads may come from any thread.

    Attributes: path; size in bytes; identity (device, inode, size, mtime in ns); verifying_key; counts; offsets, the
    position of the first point of each vector.
    """

    def __init__(self, path, counts: Counts | None = None):
        """Read and check the header. `counts`: what the circuit needs.

        Raises CuzkError (PARAMETERS) for a file that is missing, unreadable, cut off, too long or of another circuit.
        """
        self._source = _Source(path)
        self.path, self.size, self.identity = self._source.path, self._source.size, self._source.identity
        try:
            self._read_header(None if counts is None else counts.ic)
            if counts is not None:
                for name, expected, actual in zip(Counts._fields, counts, self.counts):
                    if expected != actual:
                        raise _mismatch(self.path, name, expected, actual)
        except BaseException:
            self.close()
            raise

    def _read_header(self, ic: int | None) -> None:
        room = _COUNT.size * len(VECTORS)
        self.verifying_key = _read_head(self._source, room, ic)
        self.offsets, found, offset = {}, {}, len(self.verifying_key.raw)
        for name, width in VECTORS.items():
            room -= _COUNT.size
            found[name] = _read_count(self._source, offset, name, room, width)
            self.offsets[name] = offset + _COUNT.size
            offset = self.offsets[name] + width * found[name]
        self.counts = Counts(self.verifying_key.ic_count, **found)
        if offset != self.size:
            raise fail(Exit.PARAMETERS, "compare the size with the counts", self.path, f"{offset} bytes",
                       f"{self.size} bytes", "the file is damaged: fetch it again")

    def reader(self, vector: str) -> VectorReader:
        """A view of one vector: "h", "l", "a", "b_g1" or "b_g2"."""
        return VectorReader(self, vector)

    def read_points(self, vector: str, start: int, count: int) -> np.ndarray:
        """Points start .. start + count of a vector as in the file: uint8[count, 96], or [count, 192] for b_g2.

        Raises CuzkError (PARAMETERS), naming the offset, when the file cannot be read or is no longer the one opened.
        """
        width = VECTORS[vector]
        assert 0 <= start and 0 <= count and start + count <= getattr(self.counts, vector), (vector, start, count)
        out = np.empty((count, width), np.uint8)
        if count:
            self._source.read(self.offsets[vector] + width * start, memoryview(out).cast("B"))
        return out

    def bad_point(self, vector: str, index: int, what: str) -> CuzkError:
        """The error to raise when a point that was read turns out to be wrong."""
        offset = self.offsets[vector] + VECTORS[vector] * index
        return fail(Exit.PARAMETERS, f"check {vector}[{index}] at offset {offset}", self.path, "a point of the curve",
                    what, "the file is damaged: fetch or generate it again")

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> "ParameterFile":
        return self

    def __exit__(self, *_) -> None:
        self.close()
