"""Vanilla proofs as bytes: bincode of the reference's PartitionProof, and the JSON that people pass around.

Layout (storage-proofs-update src/vanilla.rs, storage-proofs-core src/merkle/proof.rs): little-endian, u64 lengths,
u32 enum tags. For one sector size every length is fixed, so that a proof is one packed NumPy record.
"""
from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import lru_cache
from typing import Sequence

import numpy as np

from ..errors import CuzkError, Exit, fail
from ..protocol.table import Size
from . import commitments
from .vanilla import PartitionProof, Paths

_NODE = ("<u8", (4,))


def _path_type(arities: tuple) -> np.dtype:
    element = np.dtype([("length", "<u8"), ("siblings", "<u8", (arities[0] - 1, 4)), ("position", "<u8")])
    return np.dtype([("length", "<u8"), ("elements", element, (len(arities),))])


def levels_of(size: Size) -> list[tuple]:
    """Arities of tree R's parts, each a path of its own: base, then sub and top where there are any."""
    upper = [(a,) for a in size.tree_r[1:] if a]
    return [size.arities[:len(size.arities) - len(upper)], *upper]


def merkle_type(levels: list[tuple]) -> np.dtype:
    """The packed MerkleProof: Single (one part) has root and leaf before its path, Sub and Top after. PoSt alike."""
    ends = [("root", *_NODE), ("leaf", *_NODE)]
    paths = [(f"path{i}", _path_type(arities)) for i, arities in enumerate(levels)]
    return np.dtype([("tag", "<u4"), *(ends + paths if len(levels) == 1 else paths + ends)])


@lru_cache(maxsize=None)
def record_type(size: Size) -> np.dtype:
    """The packed record of one partition's proof."""
    r, d = merkle_type(levels_of(size)), merkle_type([(2,) * size.log_nodes])
    challenge = np.dtype([("r_old", r), ("d_new", d), ("r_new", r)])
    return np.dtype([("comm_c", *_NODE), ("apex_length", "<u8"), ("apex", "<u8", (size.snap_apex_leaves, 4)),
                     ("challenges_length", "<u8"), ("challenges", challenge, (size.snap_challenges,))])


def write_paths(record: np.ndarray, levels: list[tuple], paths: Paths | None) -> None:
    """Write the lengths and tags of MerkleProof records [n], and their data where `paths` are given."""
    record["tag"] = len(levels) - 1
    used = level = 0
    for i, arities in enumerate(levels):
        path, width = record[f"path{i}"], arities[0] - 1
        path["length"], path["elements"]["length"] = len(arities), width
        if paths is not None:
            count = len(arities)
            shape = (len(record), count, width, 4)
            path["elements"]["siblings"] = paths.siblings[:, used:used + count * width].reshape(shape)
            path["elements"]["position"] = paths.position[:, level:level + count]
            used, level = used + count * width, level + count
    if paths is not None:
        record["root"], record["leaf"] = paths.root, paths.leaf


def encode(proof: PartitionProof, size: Size) -> bytes:
    """bincode of one partition's proof."""
    record = np.zeros((), record_type(size))
    record["comm_c"], record["apex"] = proof.comm_c, proof.apex_leaves
    record["apex_length"], record["challenges_length"] = size.snap_apex_leaves, size.snap_challenges
    for name, levels in _trees(size).items():
        write_paths(record["challenges"][name], levels, getattr(proof, name))
    return record.tobytes()


def _trees(size: Size) -> dict:
    return {"r_old": levels_of(size), "d_new": [(2,) * size.log_nodes], "r_new": levels_of(size)}


@lru_cache(maxsize=None)
def _constants(size: Size) -> bytes:
    """A record with every length and tag set and all data zero."""
    record = np.zeros((), record_type(size))
    record["apex_length"], record["challenges_length"] = size.snap_apex_leaves, size.snap_challenges
    for name, levels in _trees(size).items():
        write_paths(record["challenges"][name], levels, None)
    return record.tobytes()


def read_paths(record: np.ndarray, levels: list[tuple]) -> Paths:
    """MerkleProof records [n] -> Paths; lengths and tags are not looked at."""
    siblings, position = [], []
    for i, arities in enumerate(levels):
        elements = record[f"path{i}"]["elements"]
        siblings.append(elements["siblings"].reshape(len(record), len(arities) * (arities[0] - 1), 4))
        position.append(elements["position"].astype(np.int64))
    return Paths(record["root"].copy(), record["leaf"].copy(), np.concatenate(siblings, axis=1),
                 np.concatenate(position, axis=1))


def decode(data: bytes, size: Size, partition: int, path=None) -> PartitionProof:
    """bincode -> proof. Raises CuzkError (INPUT) for another length or structure than `size` has."""
    kind = record_type(size)
    operation = f"parse the vanilla proof of partition {partition}"
    if len(data) != kind.itemsize:
        raise fail(Exit.INPUT, operation, path, f"{kind.itemsize} bytes for a sector of {size.name}",
                   f"{len(data)} bytes", "truncated, or of another sector size")
    record = np.frombuffer(data, kind)[0]
    blank = record.copy()
    for name, levels in _trees(size).items():
        proofs = blank["challenges"][name]
        proofs["root"] = proofs["leaf"] = 0
        for i in range(len(levels)):
            proofs[f"path{i}"]["elements"]["siblings"] = proofs[f"path{i}"]["elements"]["position"] = 0
    blank["comm_c"] = blank["apex"] = 0
    found, expected = np.frombuffer(blank.tobytes(), np.uint8), np.frombuffer(_constants(size), np.uint8)
    if (found != expected).any():
        raise fail(Exit.INPUT, f"{operation}, at byte {int(np.argmax(found != expected))}", path,
                   f"the lengths of a sector of {size.name}", "another length or tag",
                   "damaged, or of another sector size")
    challenges = record["challenges"]
    return PartitionProof(record["comm_c"].copy(), record["apex"].copy(),
                          *(read_paths(challenges[name], levels) for name, levels in _trees(size).items()))


_REQUEST = {"comm_r_old": "old_r", "comm_r_new": "new_r", "comm_d_new": "new_d"}   # as curio calls them


def read_json(data: bytes, path=None) -> tuple[list[bytes], dict]:
    """The byte strings of a vanilla file, and what stands beside them: commitments as hex, "proof_type" as a number.

    Accepts a list with one entry a partition, each base64 (curio's and lotus' `[][]byte`), hex, or a list of byte
    values (serde); and curio's request object {ProofType, old_r, new_r, new_d, Proofs}, whose commitments are lists of
    32 byte values, or text. Raises CuzkError (INPUT) with every problem.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        cut = "the input is empty" if not data.strip() else str(error)
        raise fail(Exit.INPUT, "parse vanilla proofs", path, "JSON", cut[:200], "is the file complete?") from None
    beside, problems = {}, []
    if isinstance(value, dict):
        keys = {k.lower(): v for k, v in value.items()}
        for name, key in _REQUEST.items():
            if keys.get(key) is not None:
                try:
                    beside[name] = _commitment(keys[key], name[:6], key)
                except CuzkError as error:
                    # not an option of the command line, but a part of the file
                    problems += [replace(p, exit=Exit.INPUT, operation=f"{p.operation}: {key}",
                                         path=None if path is None else str(path)) for p in error.problems]
        if isinstance(keys.get("prooftype"), int):
            beside["proof_type"] = keys["prooftype"]
        value = next((keys[k] for k in ("proofs", "vanilla_proofs", "vanillaproofs") if k in keys), None)
    if not isinstance(value, list) or not value:
        raise CuzkError(*problems, *fail(Exit.INPUT, "parse vanilla proofs", path, "a list, one entry a partition",
                                         "no such list").problems)
    parts = []
    for k, entry in enumerate(value):
        try:
            parts.append(_bytes(entry, k, path))
        except CuzkError as error:
            problems += error.problems
    if problems:
        raise CuzkError(*problems)
    return parts, beside


def _commitment(value, kind: str, key: str) -> str:
    """Hex of a commitment in a request object."""
    if isinstance(value, list):
        value = _byte_values(value).hex()
    return commitments.parse(value if isinstance(value, str) else repr(value), kind, key).hex()


def _byte_values(value: list) -> bytes:
    """b"" for what is no list of byte values."""
    good = all(type(v) is int and 0 <= v < 256 for v in value)
    return bytes(value) if good else b""


def _bytes(entry, partition: int, path) -> bytes:
    data = b""
    if isinstance(entry, list):
        data = _byte_values(entry)
    elif isinstance(entry, str):
        try:
            hexadecimal = len(entry) % 2 == 0 and set(entry[:200].lower()) <= set("0123456789abcdef")
            data = bytes.fromhex(entry) if hexadecimal else base64.b64decode(entry, validate=True)
        except ValueError:
            pass
    if not data:
        raise fail(Exit.INPUT, f"parse the vanilla proof of partition {partition}", path,
                   "base64, hex or a list of byte values", f"{repr(entry)[:40]}…")
    return data


def read(data: bytes, size: Size, path=None) -> tuple[list[PartitionProof], dict]:
    """A vanilla file: JSON as `read_json`, or the bincode of one or more partitions. Entry k is partition k.

    Raises CuzkError (INPUT) with every problem.
    """
    item = record_type(size).itemsize
    apex = size.snap_apex_leaves.to_bytes(8, "little")      # null bytes, which JSON never has
    if data[32:40] == apex or data.strip() and data.lstrip()[:1] not in (b"[", b"{", b'"', b"n", b"\xef"):
        if len(data) > size.snap_partitions * item:
            raise fail(Exit.INPUT, "parse vanilla proofs", path,
                       f"{item} bytes for each of at most {size.snap_partitions} partitions of {size.name}",
                       f"{len(data)} bytes")
        # a last part that is cut off is refused by its length
        parts, beside = [data[i:i + item] for i in range(0, len(data), item)], {}
    else:
        parts, beside = read_json(data, path)
    kind = beside.get("proof_type")
    if kind is not None and size.registered is not None and kind != size.registered:
        raise fail(Exit.INPUT, "parse vanilla proofs: ProofType", path, f"{size.registered} for {size.name}", f"{kind}",
                   "the request is for another sector size")
    return decode_all(parts, size, path), {name: text for name, text in beside.items() if name in _REQUEST}


def decode_all(parts: Sequence[bytes], size: Size, path=None) -> list[PartitionProof]:
    """bincode of partitions 0, 1, … Raises CuzkError (INPUT) with every problem."""
    if len(parts) > size.snap_partitions:
        raise fail(Exit.INPUT, "parse vanilla proofs", path, f"{size.snap_partitions} partitions for {size.name}",
                   f"{len(parts)}")
    proofs, problems = [], []
    for k, part in enumerate(parts):
        try:
            proofs.append(decode(part, size, k, path))
        except CuzkError as error:
            problems += error.problems
    if problems:
        raise CuzkError(*problems)
    return proofs
