"""WinningPoSt and WindowPoSt vanilla proofs: challenges, proofs from a tree, bincode, and the check that they hold.

Sources: rust-fil-proofs storage-proofs-post src/fallback/{vanilla,utils}.rs, filecoin-proofs src/api/post_util.rs and
src/types/mod.rs (FallbackPoStSectorProof).
"""
from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import NamedTuple, Sequence

import numpy as np

from ..errors import CuzkError, Exit, Problem, fail
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import WINDOW_CHALLENGES, WINNING_CHALLENGES, Size
from .encoding import levels_of, merkle_type, read_paths, write_paths
from .trees import Hash
from .vanilla import Paths, climb, not_below_r, positions

CHALLENGES = {"winning": WINNING_CHALLENGES, "window": WINDOW_CHALLENGES}     # per sector
_NODE = ("<u8", (4,))


class SectorProof(NamedTuple):
    """One sector's vanilla proof."""

    sector: int             # number
    comm_r: bytes
    comm_c: np.ndarray      # uint64[4]
    comm_r_last: np.ndarray # uint64[4]
    paths: Paths            # of every challenge


def challenges(kind: str, version: str, size: Size, randomness: bytes, sector: int, index: int = 0) -> np.ndarray:
    """Leaf indices that a sector proves, int64[challenges].

    version: of the registered proof; from V1_1 on (API 1.2) WindowPoSt's challenges do not hang on `index`, the place
    of the sector among all that are proved.
    """
    count = CHALLENGES[kind]
    first = index * count if (kind, version) == ("window", "V1") else 0
    state = hashlib.sha256(randomness + sector.to_bytes(8, "little"))
    out = []
    for n in range(count):
        digest = state.copy()
        digest.update((first + n).to_bytes(8, "little"))
        out.append(int.from_bytes(digest.digest()[:8], "little") % size.nodes)
    return np.array(out, np.int64)


def make(sector: int, comm_r: bytes, comm_c: bytes, tree, size: Size, index: np.ndarray) -> SectorProof:
    """Prove a sector's leaves from its tree R. Raises CuzkError (INPUT) for what cannot be read."""
    root = tree.root
    paths = Paths(np.broadcast_to(root, (len(index), 4)), tree.leaves(index), tree.siblings(index),
                  positions(index, size.arities))
    return SectorProof(sector, comm_r, np.frombuffer(comm_c, "<u8"), root, paths)


def check(proof: SectorProof, size: Size, index: np.ndarray, hash: Hash = poseidon_batch, path=None) -> None:
    """Raise CuzkError (INPUT) with everything in a sector's vanilla proof that does not hold.

    index: the challenges that it has to be for. path: the file it came from, for the message.
    """
    problems: list[Problem] = []
    text = lambda v: v.tobytes().hex() if isinstance(v, np.ndarray) else v

    def wrong(what: str, expected=None, actual=None, challenge: int | None = None) -> None:
        which = "" if challenge is None else f", challenge {challenge}"
        problems.append(Problem(Exit.INPUT, f"check the vanilla proof of sector {proof.sector}{which}: {what}",
                                None if path is None else str(path), text(expected), text(actual)))

    paths, below = proof.paths, "a number below the group order"
    for name, words in (("comm_c", proof.comm_c[None]), ("comm_r_last", proof.comm_r_last[None]),
                        ("root", paths.root), ("leaf", paths.leaf), ("sibling", paths.siblings.reshape(-1, 4))):
        for i in np.flatnonzero(not_below_r(words))[:1]:
            wrong(f"{name} is no field element", below, words[i])
    if len(paths.leaf) != len(index):
        wrong("its challenges", str(len(index)), str(len(paths.leaf)))
    if problems:
        raise CuzkError(*problems)
    off = (paths.position != positions(index, size.arities)).any(axis=1)
    for i in np.flatnonzero(off)[:1]:
        wrong("the path is for another leaf", str(index[i]), None, i)
    if not off.any():
        for i in np.flatnonzero((climb(paths, size.arities, hash) != paths.root).any(axis=1))[:1]:
            wrong("the path does not lead to its root", challenge=i)
    for i in np.flatnonzero((paths.root != proof.comm_r_last).any(axis=1))[:1]:
        wrong("the root is not comm_r_last", proof.comm_r_last, paths.root[i], i)
    found = commit(proof.comm_c, proof.comm_r_last)
    if found != proof.comm_r:
        wrong("comm_c and comm_r_last do not give comm_r", proof.comm_r.hex(), found.hex())
    if problems:
        raise CuzkError(*problems)


def commit(comm_c: np.ndarray, comm_r_last: np.ndarray) -> bytes:
    """comm_r = H(comm_c, comm_r_last)."""
    return poseidon_batch(np.stack([comm_c, comm_r_last])[None])[0].tobytes()


# ---- bytes
@lru_cache(maxsize=None)
def record_type(size: Size, count: int) -> np.dtype:
    """The packed FallbackPoStSectorProof of `count` challenges."""
    return np.dtype([("sector", "<u8"), ("comm_r", *_NODE), ("sectors", "<u8"), ("count", "<u8"),
                     ("proofs", merkle_type(levels_of(size)), (count,)), ("comm_c", *_NODE), ("comm_r_last", *_NODE)])


@lru_cache(maxsize=None)
def _blank(size: Size, count: int) -> np.ndarray:
    record = np.zeros((), record_type(size, count))
    record["sectors"], record["count"] = 1, count
    write_paths(record["proofs"], levels_of(size), None)
    return record


def encode(proof: SectorProof, size: Size) -> bytes:
    """bincode of one sector's proof."""
    record = _blank(size, len(proof.paths.leaf)).copy()
    record["sector"], record["comm_r"] = proof.sector, np.frombuffer(proof.comm_r, "<u8")
    record["comm_c"], record["comm_r_last"] = proof.comm_c, proof.comm_r_last
    write_paths(record["proofs"], levels_of(size), proof.paths)
    return record.tobytes()


def decode(data: bytes, size: Size, count: int, path=None, entry: int = 0) -> SectorProof:
    """bincode -> proof. Raises CuzkError (INPUT) for another length or structure than `size` and `count` have."""
    kind, operation = record_type(size, count), f"parse the vanilla proof {entry}"
    if len(data) != kind.itemsize:
        raise fail(Exit.INPUT, operation, path,
                   f"{kind.itemsize} bytes for {count} challenges of a sector of {size.name}", f"{len(data)} bytes",
                   "truncated, of another sector size or of another kind of PoSt")
    record = np.frombuffer(data, kind)[0]
    blank = record.copy()
    for name in ("sector", "comm_r", "comm_c", "comm_r_last"):
        blank[name] = 0
    blank["proofs"]["root"] = blank["proofs"]["leaf"] = 0
    for i in range(len(levels_of(size))):
        elements = blank["proofs"][f"path{i}"]["elements"]
        elements["siblings"] = elements["position"] = 0
    found = np.frombuffer(blank.tobytes(), np.uint8)
    expected = np.frombuffer(_blank(size, count).tobytes(), np.uint8)
    if (found != expected).any():
        raise fail(Exit.INPUT, f"{operation}, at byte {int(np.argmax(found != expected))}", path,
                   f"the lengths of {count} challenges of a sector of {size.name}", "another length or tag", "damaged")
    paths = read_paths(record["proofs"], levels_of(size))
    limits = np.array(size.arities)
    if (paths.position < 0).any() or (paths.position >= limits).any():
        raise fail(Exit.INPUT, operation, path, "positions within their levels", "one that is not")
    return SectorProof(int(record["sector"]), record["comm_r"].tobytes(), record["comm_c"].copy(),
                       record["comm_r_last"].copy(), paths)


def read(data: bytes, size: Size, kind: str, path=None) -> list[SectorProof]:
    """Vanilla proofs of many sectors in any of their forms. Raises CuzkError (INPUT) with every problem.

    Records of bincode one after another; or JSON: a list of base64 strings (Go's `[][]byte`), hex strings or lists of
    byte values, or an object whose `sectors` is a list of objects with a `vanilla` each.
    """
    count = CHALLENGES[kind]
    if b"\0" not in data[:8] and data[:64].lstrip()[:1] in (b"[", b"{"):      # a sector's number has null bytes
        parts = _of_json(data, path)
    else:
        each = record_type(size, count).itemsize
        if not data or len(data) % each:
            raise fail(Exit.INPUT, "parse the vanilla proofs", path, f"records of {each} bytes, {count} challenges of "
                       f"a sector of {size.name} each", f"{len(data)} bytes")
        parts = [data[i:i + each] for i in range(0, len(data), each)]
    return decode_all(parts, size, kind, path)


def decode_all(parts: Sequence[bytes], size: Size, kind: str, path=None) -> list[SectorProof]:
    """bincode of many sectors' proofs. Raises CuzkError (INPUT) with every problem."""
    problems, found = [], []
    for i, part in enumerate(parts):
        try:
            found.append(decode(part, size, CHALLENGES[kind], path, i))
        except CuzkError as error:
            problems += error.problems
    if problems:
        raise CuzkError(*problems[:20])
    return found


def _of_json(data: bytes, path) -> list[bytes]:
    def bad(actual: str) -> CuzkError:
        return fail(Exit.INPUT, "parse the vanilla proofs", path,
                    "a list of vanilla proofs, base64 each, or an object with sectors[].vanilla", actual)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad(f"no JSON: {error}"[:200]) from None
    if isinstance(value, dict):
        entries = value.get("sectors")
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise bad("an object without sectors")
        value = [entry.get("vanilla") for entry in entries]
    if not isinstance(value, list) or not value:
        raise bad("an empty list" if value == [] else "something else")
    found = []
    for i, entry in enumerate(value):
        try:
            if isinstance(entry, list):
                found.append(bytes(entry))
            elif isinstance(entry, str) and len(entry) % 2 == 0 and set(entry) <= set("0123456789abcdef"):
                found.append(bytes.fromhex(entry))
            elif isinstance(entry, str):
                found.append(base64.b64decode(entry, validate=True))
            else:
                raise ValueError
        except (ValueError, TypeError):
            raise bad(f"entry {i} that is neither base64 nor hex nor byte values") from None
    return found
