"""The proofs API's JSON of a phase 1 output.

Lists of 32 byte values, the nodes, make most of it: a compiled scan takes them out, so that only a small rest becomes
Python objects.
"""
from __future__ import annotations

import json
from itertools import chain

import numpy as np

from ..errors import CuzkError, Exit, fail
from ..protocol.compiled import njit
from ..protocol.table import DRG_PARENTS, EXPANDER_PARENTS, LABEL_PARENTS, Registered, Size, parse_registered
from .encoding import levels_of
from .stacked import C1, Facts, Proofs
from .vanilla import Paths

_OPERATION = "parse the phase 1 output"
_REST, _REST_EACH = 1 << 16, 48     # bytes of the rest: at most so many, and so many for each node (14 are usual)


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


def load(data, path, what: str = "JSON", cut: tuple[int, int] = (0, 0)) -> tuple[object, np.ndarray]:
    """The JSON value with −(n + 1) for node n, and the nodes uint64[n, 4].

    cut: where bytes were left out, and how many; messages count them. Raises CuzkError (INPUT).
    """
    text, nothing = np.frombuffer(data, np.uint8), np.empty(0, np.uint8)
    size, count, _ = _compact(text, nothing, nothing.reshape(0, 32), False, -1)
    if size > _REST + _REST_EACH * count:
        raise fail(Exit.INPUT, _OPERATION, path, f"{what} of a phase 1 output, most of it lists of 32 bytes",
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
        raise fail(Exit.INPUT, _OPERATION, path, what, actual, "is the file complete?" if ended else None) from None
    except (ValueError, RecursionError) as error:
        raise fail(Exit.INPUT, _OPERATION, path, what, str(error)[:200]) from None


class _Bad(Exception):
    """(what, expected, actual)"""


def parse(data, path, what: str = "JSON") -> C1:
    """what: the text is, for messages. Raises CuzkError (INPUT)."""
    value, nodes = load(data, path, what)
    del data
    where = ""
    try:
        size, registered, parts = _head(value)
        facts = Facts(**{name: nodes[_index(value, name)].tobytes() for name in Facts._fields})
        read = _Reader(size)
        for k, part in enumerate(parts):
            where = f", partition {k}"
            if not isinstance(part, list) or len(part) != size.porep_challenges:
                raise _Bad("its challenges", f"{size.porep_challenges} for {size.name}", _described(part))
            for i, proof in enumerate(part):
                where = f", partition {k}, challenge {i}"
                read.proof(proof)
    except _Bad as bad:
        raise fail(Exit.INPUT, f"{_OPERATION}{where}: {bad.args[0]}", path, *bad.args[1:]) from None
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
    size = plain.size
    if not isinstance(parts, list) or len(parts) not in (size.porep_partitions, size.porep_ni_partitions):
        raise _Bad("its partitions", f"{size.porep_partitions} for {size.name}, {size.porep_ni_partitions} where it is "
                   "non-interactive", _described(parts))
    return size, registered, parts


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
        self.data = _Path([(2,) * size.log_nodes])
        self.replica, self.columns = _Path(levels_of(size)), _Path(levels_of(size))
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
