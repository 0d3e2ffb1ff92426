"""Outputs of PoRep's commit phase 1, in each form that is met in the field.

    JSON of the proofs API      {"registered_proof": …, "vanilla_proofs": {NAME: [partition: [challenge: …]]}, "comm_r": …}
    wrapped, by lotus and curio {"SectorNum": …, "Phase1Out": base64 of that, "SectorSize": …}
    supraseal's binary          bincode of the vanilla proofs, then comm_r, comm_d, replica_id, seed, ticket

Sources: rust-filecoin-proofs-api src/seal.rs, storage-proofs-porep src/stacked/vanilla/params.rs, lotus
cmd/lotus-bench/main.go, curio lib/proof/porep_vproof_bin_decode.go. Lists of 32 byte values make most of the JSON: a
compiled scan takes them out, so that only a small rest becomes Python objects.
"""
from __future__ import annotations

import binascii
import json
import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, fail
from ..protocol.compiled import njit
from ..protocol.fr import R_ORDER
from ..protocol.table import LABEL_PARENTS, SIZES, Registered, Size, parse_registered
from .encoding import levels_of, merkle_type, read_paths, write_paths
from .graph import DRG_PARENTS, EXPANDER_PARENTS
from .stacked import Facts, Proofs, no_elements
from .vanilla import Paths

LARGEST = 1 << 31       # bytes of a file: a non-interactive PoRep's of 64 GiB is a third of it
_REST, _REST_EACH = 1 << 16, 48     # bytes of JSON beside lists of 32 byte values: at most so many, and for each 48 (met: 14)
_FACTS = ("comm_r", "comm_d", "replica_id", "seed", "ticket")


class C1(NamedTuple):
    """What a phase 1 output holds."""

    size: Size
    registered: Registered | None   # None where the form does not say
    partitions: int
    proofs: Proofs                  # of all partitions, one after another
    facts: Facts
    sector: int | None              # its number, where the form says


def parse(data: bytes, path=None) -> C1:
    """Raises CuzkError (INPUT) for what is none, is cut off, or holds numbers that are no field elements."""
    operation = "parse the phase 1 output"
    if not data.strip():
        raise fail(Exit.INPUT, operation, path, "JSON or supraseal's binary", "the input is empty")
    if len(data) > LARGEST:
        raise fail(Exit.INPUT, operation, path, f"at most {LARGEST} bytes", f"{len(data)} bytes")
    if data[4:8] == bytes(4):           # the upper half of a count; JSON holds no null bytes
        found = _parse_binary(data, path)
    elif data.lstrip()[:1] == b"{":
        wrapper = re.compile(rb'"phase1out"\s*:\s*"([^"]*)("?)', re.IGNORECASE).search(data)
        if wrapper is None:
            found = _parse_json(data, path)
        else:
            around, data = _unwrap(data, *wrapper.span(1), bool(wrapper[2]), path)
            del wrapper                 # and with it the whole file's memory
            found = _wrapped(around, _parse_json(data, path, "the JSON in Phase1Out"), path)
    else:
        raise fail(Exit.INPUT, operation, path, "JSON or supraseal's binary", f"it begins with {bytes(data[:16])!r}")
    _refuse_no_elements(found, path)
    return found


def _refuse_no_elements(found: C1, path) -> None:
    operation, below = "parse the phase 1 output", "a number below the group order"
    for name in ("comm_r", "comm_d", "replica_id"):
        value = getattr(found.facts, name)
        if int.from_bytes(value, "little") >= R_ORDER:
            raise fail(Exit.INPUT, f"{operation}: {name} is no field element", path, below, value.hex())

    def wrong(what, expected, actual, challenge):
        partition, i = divmod(int(challenge), found.size.porep_challenges)
        raise fail(Exit.INPUT, f"{operation}: partition {partition}, challenge {i}: {what}", path, expected,
                   actual.tobytes().hex())

    no_elements(found.proofs, wrong)


# ---- JSON
@njit
def _space(c):
    return c == 32 or c == 10 or c == 13 or c == 9


@njit
def _digit(c):
    return 48 <= c <= 57


@njit
def _take_node(text, at, node):
    """Read the list of 32 byte values that begins at `at` into node; where it ends, or −1 for another list."""
    for count in range(32):
        at += 1
        while at < len(text) and _space(text[at]):
            at += 1
        first, value = at, 0
        while at < len(text) and at < first + 4 and _digit(text[at]):
            value, at = 10 * value + text[at] - 48, at + 1
        if at == first or value > 255 or at > first + 1 and text[first] == 48:
            return -1
        while at < len(text) and _space(text[at]):
            at += 1
        if at == len(text) or text[at] != (93 if count == 31 else 44):      # ] or ,
            return -1
        node[count] = value
    return at + 1


@njit
def _compact(text, rest, nodes, write, stop):
    """Copy JSON without its lists of 32 byte values; (bytes of the rest, number of lists, where it ended).

    List n goes to nodes uint8[n, 32], and the number −(n + 1) to the rest; negative integers of the text become floats
    there, so that no other integer is negative. Runs of space become one. write: False only counts. stop: of the rest's
    bytes at which to end, or −1.
    """
    i = o = n = 0
    node, digits = np.zeros(32, np.uint8), np.zeros(20, np.uint8)
    while i < len(text) and (stop < 0 or o < stop):
        c, first = text[i], i
        end = _take_node(text, i, node) if c == 91 else -1                  # [
        if end >= 0:
            if write:
                nodes[n] = node
            n += 1
            value, count = n, 0
            while value:
                digits[count] = 48 + value % 10
                value, count = value // 10, count + 1
            if write:                                                       # apart from numbers beside it
                rest[o], rest[o + 1], rest[o + 2 + count] = 32, 45, 32
                rest[o + 2:o + 2 + count] = digits[:count][::-1]
            i, o = end, o + count + 3
            continue
        i += 1
        whole = False                                                       # a negative integer
        if c == 34:                                                         # a string
            while i < len(text) and text[i] != 34:
                i += 2 if text[i] == 92 else 1
            i = min(i + 1, len(text))
        elif c == 45 or _digit(c):                                          # a number
            whole = c == 45
            while i < len(text) and (_digit(text[i]) or text[i] == 43 or text[i] == 45 or text[i] == 46
                                     or text[i] == 69 or text[i] == 101):
                whole = whole and _digit(text[i])
                i += 1
        elif _space(c):
            first = i - 1
            while i < len(text) and _space(text[i]):
                first, i = i, i + 1
        size = i - first
        if write:
            rest[o:o + size] = text[first:i]
        o += size
        if whole:
            if write:
                rest[o], rest[o + 1] = 46, 48                               # .0
            o += 2
    return o, n, i


def _object(pairs: list) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} twice in one object")
    return found


def _constant(text: str):
    raise ValueError(f"{text} is no JSON")


def _load(data, path, what: str = "JSON", cut: tuple[int, int] = (0, 0)) -> tuple[object, np.ndarray]:
    """The JSON value with −(n + 1) for node n, and the nodes uint64[n, 4].

    cut: where bytes were left out, and how many; messages count them. Raises CuzkError (INPUT).
    """
    text, nothing = np.frombuffer(data, np.uint8), np.empty(0, np.uint8)
    size, count, _ = _compact(text, nothing, nothing.reshape(0, 32), False, -1)
    if size > _REST + _REST_EACH * count:
        raise fail(Exit.INPUT, "parse the phase 1 output", path, f"{what} of a phase 1 output, most of it lists of 32 bytes",
                   f"{count} of them in {len(text)} bytes")
    rest, nodes = np.empty(size, np.uint8), np.empty((count, 32), np.uint8)
    _compact(text, rest, nodes, True, -1)
    try:
        return json.loads(rest.tobytes(), object_pairs_hook=_object, parse_constant=_constant), nodes.view("<u8")
    except json.JSONDecodeError as error:
        at = _compact(text, nothing, nothing.reshape(0, 32), False, error.pos)[2]
        ended = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        at = len(text) if ended else at
        at += cut[1] if at > cut[0] else 0
        actual = f"its text ends at byte {at}" if ended else f"{error.msg} at byte {at}"
        raise fail(Exit.INPUT, "parse the phase 1 output", path, what, actual, "is the file complete?" if ended else None
                   ) from None
    except (ValueError, RecursionError) as error:
        raise fail(Exit.INPUT, "parse the phase 1 output", path, what, str(error)[:200]) from None


def _unwrap(data: bytes, first: int, last: int, closed: bool, path) -> tuple[dict, bytes]:
    """The wrapper of lotus and curio without the text first..last, and that text decoded. Raises CuzkError (INPUT)."""
    operation = "parse the phase 1 output"
    if not closed:
        raise fail(Exit.INPUT, operation, path, "base64 as Phase1Out", f"its text ends at byte {len(data)}",
                   "is the file complete?")
    around, _ = _load(data[:first] + data[last:], path, cut=(first, last - first))
    if not isinstance(around, dict):
        raise fail(Exit.INPUT, operation, path, "an object with Phase1Out", "another value")
    try:
        text = memoryview(data)[first:last]
        if data.find(b"\\", first, last) >= 0:
            text = json.loads(data[first - 1:last + 1])
        return {name.lower(): value for name, value in around.items()}, binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise fail(Exit.INPUT, operation, path, "base64 as Phase1Out", error) from None


def _wrapped(around: dict, found: C1, path) -> C1:
    """With the sector number of the wrapper. Raises CuzkError (INPUT)."""
    sector, size = around.get("sectornum"), around.get("sectorsize")
    if sector is not None and (type(sector) is not int or not 0 <= sector < 1 << 64):
        raise fail(Exit.INPUT, "parse the phase 1 output: SectorNum", path, "a sector number", repr(sector)[:40])
    if size is not None and size != found.size.bytes:
        raise fail(Exit.INPUT, "parse the phase 1 output: SectorSize", path,
                   f"{found.size.bytes} for its registered proof", repr(size)[:40])
    return found._replace(sector=sector)


class _Bad(Exception):
    """(what, expected, actual)"""


def _parse_json(data, path, what: str = "JSON") -> C1:
    value, nodes = _load(data, path, what)
    del data
    where = ""
    try:
        size, registered, parts = _head(value)
        facts = Facts(**{name: nodes[_index(value, name)].tobytes() for name in _FACTS})
        read = _Reader(size)
        for k, part in enumerate(parts):
            where = f", partition {k}"
            if not isinstance(part, list) or len(part) != size.porep_challenges:
                raise _Bad("its challenges", f"{size.porep_challenges} for {size.name}", _described(part))
            for i, proof in enumerate(part):
                where = f", partition {k}, challenge {i}"
                read.proof(proof)
    except _Bad as bad:
        raise fail(Exit.INPUT, f"parse the phase 1 output{where}: {bad.args[0]}", path, *bad.args[1:]) from None
    return C1(size, registered, len(parts), read.finish(nodes), facts, None)


def _head(value) -> tuple[Size, Registered, list]:
    """The sector size, the registered proof and the partitions."""
    if not isinstance(value, dict):
        raise _Bad("the whole", "an object", _described(value))
    names = _get(value, "registered_proof", str), _get(value, "vanilla_proofs", dict)
    if len(names[1]) != 1:
        raise _Bad("vanilla_proofs", "an object with one key", f"{len(names[1])} keys")
    ((key, parts),) = names[1].items()
    try:
        registered, plain = parse_registered(names[0], "porep"), parse_registered(key, "porep")
    except CuzkError as error:
        raise _Bad("its registered proof", error.problems[0].expected, error.problems[0].actual) from None
    if registered.size != plain.size:
        raise _Bad("its registered proof", f"one for {registered.size.name} beside vanilla proofs of that size", key)
    if not isinstance(parts, list) or len(parts) not in (plain.size.porep_partitions, plain.size.porep_ni_partitions):
        raise _Bad("its partitions", f"{plain.size.porep_partitions} for {plain.size.name}, {plain.size.porep_ni_partitions} "
                   "where it is non-interactive", _described(parts))
    return plain.size, registered, parts


def _described(value) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:4])) or 'no key'}"[:120]
    return "a list of 32 byte values" if type(value) is int and value < 0 else repr(value)[:60]


def _get(value, name: str, kind: type):
    """A member of an object."""
    if not isinstance(value, dict) or name not in value:
        raise _Bad(name, "given", "absent" if isinstance(value, dict) else _described(value))
    if not isinstance(value[name], kind):
        raise _Bad(name, {dict: "an object", list: "a list", str: "a string"}[kind], _described(value[name]))
    return value[name]


def _index(value, name: str) -> int:
    """The number of the node that is a member."""
    if not isinstance(value, dict) or name not in value:
        raise _Bad(name, "given", "absent" if isinstance(value, dict) else _described(value))
    return _node_index(value[name], name)


def _node_index(found, name: str) -> int:
    if type(found) is not int or found >= 0:
        raise _Bad(name, "a list of 32 byte values", _described(found))
    return -1 - found


def _number(value, name: str, limit: int) -> int:
    if not isinstance(value, dict) or type(value.get(name)) is not int or not 0 <= value[name] < limit:
        raise _Bad(name, f"a number below {limit}", _described(value.get(name) if isinstance(value, dict) else value))
    return value[name]


def _nodes(value: list, count: int, name: str) -> list[int]:
    if len(value) != count:
        raise _Bad(name, f"{count} of them", f"{len(value)}")
    for found in value:
        if type(found) is not int or found >= 0:
            raise _Bad(name, "lists of 32 byte values", _described(found))
    return value


class _Path:
    """MerkleProofs of one tree."""

    _LEVELS = (("path",), ("base_proof", "sub_proof"), ("base_proof", "sub_proof", "top_proof"))

    def __init__(self, levels: list[tuple]):
        self._levels = levels
        self._name = ("Single", "Sub", "Top")[len(levels) - 1]
        self.roots, self.leaves, self.siblings, self.positions = [], [], [], []

    def read(self, value, name: str) -> None:
        body = _get(_get(value, "data", dict), self._name, dict)
        self.roots.append(_index(body, "root"))
        self.leaves.append(_index(body, "leaf"))
        for part, arities in zip(self._LEVELS[len(self._levels) - 1], self._levels):
            elements = _get(_get(body, part, dict), "path", list)
            if len(elements) != len(arities):
                raise _Bad(f"the levels of {name}", f"{len(arities)}", f"{len(elements)}")
            for element in elements:
                self.siblings += _nodes(_get(element, "hashes", list), arities[0] - 1, f"the hashes of {name}")
                self.positions.append(_number(element, "index", arities[0]))

    def finish(self, nodes: np.ndarray) -> Paths:
        n = len(self.roots)
        taken = -1 - np.array(self.siblings, np.int64)
        return Paths(nodes[self.roots], nodes[self.leaves], nodes[taken].reshape(n, -1, 4),
                     np.array(self.positions, np.int64).reshape(n, -1))


class _Reader:
    """Vanilla proofs as indices of nodes."""

    def __init__(self, size: Size):
        self._size = size
        self.data, self.replica, self.columns = _Path([(2,) * size.log_nodes]), _Path(levels_of(size)), _Path(levels_of(size))
        self.index, self.rows, self.parents, self.layer, self.node = [], [], [], [], []

    def proof(self, value) -> None:
        """One challenge's."""
        self.data.read(_get(value, "comm_d_proofs", dict), "comm_d_proofs")
        self.replica.read(_get(value, "comm_r_last_proof", dict), "comm_r_last_proof")
        columns = _get(value, "replica_column_proofs", dict)
        lists = [_get(columns, name, list) for name in ("drg_parents", "exp_parents")]
        for found, count, name in zip(lists, (DRG_PARENTS, EXPANDER_PARENTS), ("drg_parents", "exp_parents")):
            if len(found) != count:
                raise _Bad(name, f"{count} of them", f"{len(found)}")
        for proof in chain([_get(columns, "c_x", dict)], *lists):
            column = _get(proof, "column", dict)
            self.index.append(_number(column, "index", 1 << 32))
            self.rows += _nodes(_get(column, "rows", list), self._size.layers, "rows of a column")
            self.columns.read(_get(proof, "inclusion_proof", dict), "inclusion_proof")
        labels = _get(value, "labeling_proofs", list)
        if len(labels) != self._size.layers:
            raise _Bad("labeling_proofs", f"{self._size.layers} of them", f"{len(labels)}")
        for proof in (*labels, _get(value, "encoding_proof", dict)):
            self.parents += _nodes(_get(proof, "parents", list), LABEL_PARENTS, "parents of a label")
            self.layer.append(_number(proof, "layer_index", 1 << 32))
            self.node.append(_number(proof, "node", 1 << 63))

    def finish(self, nodes: np.ndarray) -> Proofs:
        """The proofs with nodes uint64[n, 4]."""
        layers, width = self._size.layers, 1 + DRG_PARENTS + EXPANDER_PARENTS
        take = lambda indices, *shape: nodes[-1 - np.array(indices, np.int64)].reshape(-1, *shape, 4)
        number = lambda values, width: np.array(values, np.int64).reshape(-1, width)
        return Proofs(self.data.finish(nodes), self.replica.finish(nodes), self.columns.finish(nodes),
                      number(self.index, width), take(self.rows, width, layers),
                      take(self.parents, layers + 1, LABEL_PARENTS), number(self.layer, layers + 1),
                      number(self.node, layers + 1))


# ---- binary
@lru_cache(maxsize=None)
def _record_type(size: Size) -> np.dtype:
    """The packed vanilla proof of one challenge."""
    column = np.dtype([("index", "<u4"), ("rows_length", "<u8"), ("rows", "<u8", (size.layers, 4)),
                       ("path", merkle_type(levels_of(size)))])
    label = np.dtype([("parents_length", "<u8"), ("parents", "<u8", (LABEL_PARENTS, 4)), ("layer", "<u4"), ("node", "<u8")])
    return np.dtype([("data", merkle_type([(2,) * size.log_nodes])), ("replica", merkle_type(levels_of(size))),
                     ("c_x", column), ("drg_length", "<u8"), ("drg", column, (DRG_PARENTS,)),
                     ("expander_length", "<u8"), ("expander", column, (EXPANDER_PARENTS,)),
                     ("labels_length", "<u8"), ("labels", label, (size.layers,)), ("encoding", label)])


def _write_lengths(record: np.ndarray, size: Size) -> None:
    """Lengths and tags of records [n]."""
    write_paths(record["data"], [(2,) * size.log_nodes], None)
    write_paths(record["replica"], levels_of(size), None)
    for name in ("c_x", "drg", "expander"):
        record[name]["rows_length"] = size.layers
        write_paths(record[name]["path"], levels_of(size), None)
    record["drg_length"], record["expander_length"], record["labels_length"] = DRG_PARENTS, EXPANDER_PARENTS, size.layers
    for name in ("labels", "encoding"):
        record[name]["parents_length"] = LABEL_PARENTS


def _size_of(data: bytes, path) -> Size:
    """From the length of the first path in tree D."""
    at = 16 + 4 + 64        # counts of partitions and challenges, tag, root and leaf
    length = int.from_bytes(data[at:at + 8], "little")
    size = SIZES.get(32 << length) if len(data) >= at + 8 and length < 40 else None
    if size is None:
        raise fail(Exit.INPUT, "parse the phase 1 output", path, "JSON, or supraseal's binary of a sector size that there is",
                   f"{len(data)} bytes that are neither")
    return size


def _parse_binary(data: bytes, path) -> C1:
    operation, size = "parse the phase 1 output", _size_of(data, path)
    partitions, challenges = int.from_bytes(data[:8], "little"), size.porep_challenges
    allowed = (size.porep_partitions, size.porep_ni_partitions)
    if partitions not in allowed:
        raise fail(Exit.INPUT, f"{operation}: its partitions", path, " or ".join(map(str, allowed)) + f" for {size.name}",
                   str(partitions))
    part = np.dtype([("count", "<u8"), ("proofs", _record_type(size), (challenges,))])
    whole = np.dtype([("count", "<u8"), ("parts", part, (partitions,)), *((name, "S32") for name in _FACTS)])
    if len(data) != whole.itemsize:
        raise fail(Exit.INPUT, operation, path, f"{whole.itemsize} bytes for {partitions} partitions of {size.name}",
                   f"{len(data)} bytes", "is the file complete?")
    counts = np.frombuffer(data, part, partitions, 8)
    for k in np.flatnonzero(counts["count"] != challenges)[:1]:
        raise fail(Exit.INPUT, f"{operation}, partition {k}: its challenges", path, f"{challenges} for {size.name}",
                   str(counts["count"][k]))
    records = np.ascontiguousarray(counts["proofs"].reshape(-1))
    expected = records.copy()
    _write_lengths(expected, size)
    wrong = np.flatnonzero(records.view(np.uint8) != expected.view(np.uint8))
    if len(wrong):
        challenge, at = divmod(int(wrong[0]), records.itemsize)
        k, i = divmod(challenge, challenges)
        raise fail(Exit.INPUT, f"{operation}, partition {k}, challenge {i}: byte {at}", path,
                   f"the lengths of a sector of {size.name}", "another length or tag")
    del expected
    columns = np.concatenate([records["c_x"][:, None], records["drg"], records["expander"]], axis=1)
    labels = np.concatenate([records["labels"], records["encoding"][:, None]], axis=1)
    proofs = Proofs(read_paths(records["data"], [(2,) * size.log_nodes]), read_paths(records["replica"], levels_of(size)),
                    read_paths(columns.reshape(-1)["path"], levels_of(size)), columns["index"].astype(np.int64),
                    columns["rows"].copy(), labels["parents"].copy(), labels["layer"].astype(np.int64),
                    labels["node"].astype(np.int64))
    tail = memoryview(data)[-32 * len(_FACTS):]
    facts = Facts(**{name: bytes(tail[32 * i:32 * i + 32]) for i, name in enumerate(_FACTS)})
    return C1(size, None, partitions, proofs, facts, None)
