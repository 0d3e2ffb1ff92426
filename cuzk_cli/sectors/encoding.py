"""Vanilla proofs as bytes: bincode of the reference's PartitionProof, and the JSON that people pass around.

Layout (storage-proofs-update src/vanilla.rs, storage-proofs-core src/merkle/proof.rs): little-endian, u64 lengths, u32 enum
tags. For one sector size every length is fixed, so that a proof is one packed NumPy record.
"""
from __future__ import annotations

import base64
import binascii
import json
from functools import lru_cache

import numpy as np

from ..errors import CuzkError, Exit, fail
from ..protocol.table import Size
from .vanilla import PartitionProof, Paths

_NODE = ("<u8", (4,))


def _path_type(arities: tuple) -> np.dtype:
    element = np.dtype([("length", "<u8"), ("siblings", "<u8", (arities[0] - 1, 4)), ("position", "<u8")])
    return np.dtype([("length", "<u8"), ("elements", element, (len(arities),))])


def _split(size: Size) -> list[tuple]:
    """Levels of tree R: base, then sub and top where there are any."""
    upper = [(a,) for a in size.tree_r[1:] if a]
    return [size.arities[:len(size.arities) - len(upper)], *upper]


def _proof_type(levels: list[tuple]) -> np.dtype:
    ends = [("root", *_NODE), ("leaf", *_NODE)]
    paths = [(f"path{i}", _path_type(arities)) for i, arities in enumerate(levels)]
    return np.dtype([("tag", "<u4"), *(ends + paths if len(levels) == 1 else paths + ends)])


@lru_cache(maxsize=None)
def record_type(size: Size) -> np.dtype:
    """The packed record of one partition's proof."""
    r, d = _proof_type(_split(size)), _proof_type([(2,) * size.log_nodes])
    challenge = np.dtype([("r_old", r), ("d_new", d), ("r_new", r)])
    return np.dtype([("comm_c", *_NODE), ("apex_length", "<u8"), ("apex", "<u8", (size.snap_apex_leaves, 4)),
                     ("challenges_length", "<u8"), ("challenges", challenge, (size.snap_challenges,))])


def _fill(record: np.ndarray, levels: list[tuple], paths: Paths | None) -> None:
    """Write the constants of a proof record, and its data where `paths` are given."""
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
        _fill(record["challenges"][name], levels, getattr(proof, name))
    return record.tobytes()


def _trees(size: Size) -> dict:
    return {"r_old": _split(size), "d_new": [(2,) * size.log_nodes], "r_new": _split(size)}


@lru_cache(maxsize=None)
def _constants(size: Size) -> bytes:
    """A record with every length and tag set and all data zero."""
    record = np.zeros((), record_type(size))
    record["apex_length"], record["challenges_length"] = size.snap_apex_leaves, size.snap_challenges
    for name, levels in _trees(size).items():
        _fill(record["challenges"][name], levels, None)
    return record.tobytes()


def _paths(record: np.ndarray, levels: list[tuple]) -> Paths:
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
        raise fail(Exit.INPUT, operation, path, f"{kind.itemsize} bytes for a sector of {size.name}", f"{len(data)} bytes",
                   "truncated, or of another sector size")
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
                   f"the lengths of a sector of {size.name}", "another length or tag", "damaged, or of another sector size")
    challenges = record["challenges"]
    return PartitionProof(record["comm_c"].copy(), record["apex"].copy(),
                          *(_paths(challenges[name], levels) for name, levels in _trees(size).items()))


def read_json(data: bytes, path=None) -> tuple[list[bytes], dict]:
    """The byte strings of a vanilla file, and the commitments beside them.

    Accepts curio's list of base64 strings, curio's request object {ProofType, old_r, new_r, new_d, Proofs}, and the same with
    hex strings. Raises CuzkError (INPUT).
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        cut = "the input is empty" if not data.strip() else str(error)
        raise fail(Exit.INPUT, "parse vanilla proofs", path, "JSON", cut[:200], "is the file complete?") from None
    beside = {}
    if isinstance(value, dict):
        keys = {k.lower(): v for k, v in value.items()}
        beside = {name: keys[key] for name, key in
                  (("comm_r_old", "old_r"), ("comm_r_new", "new_r"), ("comm_d_new", "new_d")) if isinstance(keys.get(key), str)}
        value = next((keys[k] for k in ("proofs", "vanilla_proofs", "vanillaproofs") if k in keys), None)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise fail(Exit.INPUT, "parse vanilla proofs", path, "a list of base64 strings, one a partition",
                   "a list of something else" if isinstance(value, list) and value else "no such list")
    return [_bytes(text, k, path) for k, text in enumerate(value)], beside


def _bytes(text: str, partition: int, path) -> bytes:
    try:
        if len(text) % 2 == 0 and set(text[:200]) <= set("0123456789abcdef"):
            return bytes.fromhex(text)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise fail(Exit.INPUT, f"parse the vanilla proof of partition {partition}", path, "base64 or hex",
                   f"{text[:40]!r}…") from None


def read(data: bytes, size: Size, path=None) -> tuple[list[PartitionProof], dict]:
    """A vanilla file: JSON as `read_json`, or the bincode of one or more partitions. Entry k is partition k.

    Raises CuzkError (INPUT) with every problem.
    """
    item = record_type(size).itemsize
    if data and len(data) % item == 0 and data.lstrip()[:1] not in (b"[", b"{"):
        parts, beside = [data[i:i + item] for i in range(0, len(data), item)], {}
    else:
        parts, beside = read_json(data, path)
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
    return proofs, beside
