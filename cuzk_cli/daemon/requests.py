"""From what a client sends to what the prover takes: curio's messages, and our own jobs as JSON.

What can be told without reading the input is checked here, all problems at once.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
from functools import partial
from typing import Callable, NamedTuple

from ..errors import CuzkError, Exit, Problem, fail
from ..protocol.table import REGISTERED, SIZES, Size, parse_size
from ..prove.source import read_source
from ..prove.urgency import Urgency
from ..sectors import commitments
from .proto import proving
from .roots import Roots

PRIORITIES = {urgency.name.lower(): urgency for urgency in reversed(Urgency)}       # in curio's order, from 1
_LONGEST_ID = 512           # characters; curio's ids of WindowPoSts hold blanks and brackets
_LONGEST_TEXT = 4096
_KINDS = {number: value.name for number, value in proving.enums["ProofKind"].values_by_number.items()}

# what curio's interface calls our kinds: in queues, and in circuits
QUEUES = {"porep": "porep-c2", "snap": "snap-update", "window": "window-post", "winning": "winning-post"}
_CIRCUITS = {"porep": "porep", "snap": "snap", "wpost": "window", "winning": "winning"}


class Asked(NamedTuple):
    """A request, and how it is to be treated."""

    request: object                 # a prove.kind.Request
    content: bytes                  # equal for two that ask for the same
    held: int                       # bytes of input that came with it
    id: str = ""                    # the client's, "" for none
    priority: Urgency | None = None
    deadline: float | None = None   # seconds since the epoch


def circuit_id(kind: str, size: Size) -> str:
    """("window", 32GiB) -> "wpost-32g"."""
    name = next(name for name, of in _CIRCUITS.items() if of == kind)
    return f"{name}-{size.name[:-2].lower()}"


def parse_circuit(text: str) -> tuple[str, Size]:
    """"wpost-32g" -> ("window", 32GiB). Raises CuzkError (USAGE)."""
    name, _, size = text.partition("-")
    if name not in _CIRCUITS or not size:
        raise fail(Exit.USAGE, "read the circuit", "circuit_id", f"{' '.join(_CIRCUITS)}, - and a size, as in snap-32g",
                   repr(text[:100]))
    return _CIRCUITS[name], parse_size(size)


class _Problems:
    """What is wrong with a message, by field."""

    def __init__(self):
        self.found: list[Problem] = []

    def refuse(self, field: str, expected: str, actual) -> None:
        self.found += fail(Exit.USAGE, "read the request", field, expected, str(actual)[:200]).problems

    def attempt(self, function: Callable, *arguments):
        try:
            return function(*arguments)
        except CuzkError as error:
            self.found += error.problems

    def check(self) -> None:
        if self.found:
            raise CuzkError(*self.found[:20])


# ---- curio's messages
def from_message(message) -> Asked:
    """A SubmitProofRequest, which is changed. Raises CuzkError (USAGE) with everything that is wrong with it."""
    problems = _Problems()
    request_id, message.request_id = message.request_id, ""
    priority, message.priority = message.priority, 0
    _check_id(request_id, problems)
    if not 0 <= priority <= len(PRIORITIES):
        problems.refuse("priority", "0 to 4", priority)
    kind = _KINDS.get(message.proof_kind, str(message.proof_kind))
    make = _MESSAGES.get(kind)
    if make is None:
        problems.refuse("proof_kind", " or ".join(_MESSAGES), kind)
    request = None if make is None else make(message, problems)
    problems.check()
    data = message.SerializeToString(deterministic=True)
    return Asked(request, hashlib.sha256(b"message" + data).digest(), len(data), request_id,
                 list(PRIORITIES.values())[priority - 1] if priority else None)


def _check_id(text: str, problems: _Problems) -> None:
    if len(text) > _LONGEST_ID or not text.isprintable():
        problems.refuse("request_id", f"at most {_LONGEST_ID} printable characters", repr(text[:40]))


def _size(message, block: str, problems: _Problems) -> Size | None:
    """The sector size, by bytes or by the registered proof, which must agree."""
    registered = {first + size.registered: size for first in REGISTERED[block].values() for size in SIZES.values()
                  if size.registered is not None}
    by_number, size = registered.get(message.registered_proof), SIZES.get(message.sector_size)
    if message.sector_size and size is None:
        problems.refuse("sector_size", "bytes of a sector: " + " ".join(map(str, SIZES)), message.sector_size)
    elif message.registered_proof and by_number is None:
        problems.refuse("registered_proof", f"a number of {block} proofs", message.registered_proof)
    elif not message.sector_size and not message.registered_proof:
        problems.refuse("sector_size", "given, as registered_proof is 0", 0)
    elif size is not None and message.registered_proof and by_number != size:
        problems.refuse("registered_proof", f"one of {size.name}, as sector_size says",
                        f"{message.registered_proof}, which is of {by_number.name}")
    return size or by_number


def _snap(message, problems: _Problems):
    from ..prove import snap

    size = _size(message, "snap", problems)
    found = {name: problems.attempt(_commitment, getattr(message, name), kind, name)
             for name, kind in snap.KIND_OF.items()}
    count, bound = len(message.vanilla_proofs), size.snap_partitions if size else None
    if not count or bound and count != bound:
        problems.refuse("vanilla_proofs", f"{bound} partitions" if bound else "one a partition", count)
    known = message.miner_id or message.sector_number
    return snap.Request(vanilla=tuple(message.vanilla_proofs), sector_size=size and size.name, **found,
                        sector_id=(message.miner_id, message.sector_number) if known else None)


def _commitment(data: bytes, kind: str, field: str) -> str:
    """Hex of 32 raw bytes, or of those in a binary CID, which curio once sent."""
    if not 32 <= len(data) <= 64:
        raise fail(Exit.USAGE, "read the request", field, "32 bytes", f"{len(data)} bytes")
    text = data.hex() if len(data) == 32 else "b" + base64.b32encode(data).decode().lower().rstrip("=")
    return commitments.parse(text, kind, field).hex()


def _post(kind: str, message, problems: _Problems):
    from ..prove import post

    size = _size(message, kind, problems)
    if len(message.randomness) != 32:
        problems.refuse("randomness", "32 bytes", f"{len(message.randomness)} bytes")
    count, most = len(message.vanilla_proofs), size.window_sectors if size and kind == "window" else 1
    if not count or size and count > most:
        problems.refuse("vanilla_proofs", f"1 to {most} sectors" if most > 1 else "one sector", count)
    if kind == "winning" and message.partition_index:
        problems.refuse("partition_index", "0 for a WinningPoSt", message.partition_index)
    text = lambda number: str(number) if number else None
    return post.Request(kind, randomness=message.randomness.hex(), miner=text(message.miner_id),
                        registered_proof=text(message.registered_proof), sector_size=size and size.name,
                        vanilla=tuple(message.vanilla_proofs), before=message.partition_index * most)


_MESSAGES = {"SNAP_DEALS_UPDATE": _snap, "WINDOW_POST_PARTITION": partial(_post, "window"),
             "WINNING_POST": partial(_post, "winning")}


# ---- jobs as JSON
def from_submit(message, roots: Roots) -> Asked:
    """A SubmitRequest. Raises CuzkError (USAGE, INPUT) with everything that is wrong with it."""
    problems = _Problems()
    _check_id(message.request_id, problems)
    if message.priority and message.priority not in PRIORITIES:
        problems.refuse("priority", " or ".join(PRIORITIES), repr(message.priority)[:40])
    if not 0 <= message.deadline < 1 << 40:         # NaN, too
        problems.refuse("deadline", "seconds since the epoch", message.deadline)
    made = problems.attempt(from_job, message.job, message.vanilla, roots)
    problems.check()
    return Asked(*made, len(message.vanilla), message.request_id, PRIORITIES.get(message.priority),
                 message.deadline or None)


def from_job(text: str, vanilla: bytes, roots: Roots) -> tuple[object, bytes]:
    """(request, content) of {"kind": …, fields of its request}; vanilla: proofs that are no file, b"" for none.

    No path may lead out of `roots`. Raises CuzkError (USAGE, INPUT) with everything that is wrong.
    """
    try:
        job = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fail(Exit.USAGE, "read the job", None, "JSON", str(error)[:200]) from None
    kind = job.get("kind") if isinstance(job, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise fail(Exit.USAGE, "read the job", "kind", " or ".join(_FIELDS), repr(kind)[:100])
    problems = _Problems()
    request = _request(kind, {key: value for key, value in job.items() if key != "kind"}, vanilla, roots, problems)
    problems.check()
    canonical = json.dumps(job, sort_keys=True).encode()
    return request, hashlib.sha256(b"job" + hashlib.sha256(canonical).digest() + vanilla).digest()


def _text(value) -> bool:
    """text"""
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and "\0" not in value


def _path(value) -> bool:
    """an absolute path"""
    return _text(value) and value.startswith("/")


def _sector(value) -> bool:
    """an absolute path, or a sector's name"""
    return _text(value) and ("/" not in value or value.startswith("/"))


def _list_of(good: Callable, most: int) -> Callable:
    def all_good(value) -> bool:
        return isinstance(value, list) and 0 < len(value) <= most and all(map(good, value))

    all_good.__doc__ = f"a list of at most {most}, each {good.__doc__}"
    return all_good


def _index(value) -> bool:
    """an index"""
    return type(value) is int and 0 <= value < 1 << 31


def _wanted(value) -> bool:
    """[a sector as an absolute path, a name or a number, its comm_r or null]"""
    return (isinstance(value, list) and len(value) == 2 and _sector(value[0])
            and (value[1] is None or _text(value[1])))


def _flag(value) -> bool:
    """true or false"""
    return isinstance(value, bool)


def _seconds(value) -> bool:
    """seconds"""
    return type(value) in (int, float) and 0 < value <= 86400


_COMMITMENTS = ("comm_r_old", "comm_r_new", "comm_d_new")
_SHARED = {"storage": _list_of(_path, 64), "vanilla": _path, "sector_size": _text, "partitions": _list_of(_index, 4096)}
_POST = {**_SHARED, "sectors": _list_of(_wanted, 1 << 20), "skip_faulty": _flag, "read_seconds": _seconds,
         **dict.fromkeys(("randomness", "miner", "prover_id", "replica", "registered_proof"), _text)}
_FIELDS = {"snap": {**_SHARED, "sector": _sector, **dict.fromkeys(_COMMITMENTS, _text)},
           "winning": _POST, "window": _POST}


def _fields(job: dict, known: dict[str, Callable], problems: _Problems) -> dict:
    """The fields that are known and of their type, lists as tuples; null counts as not given."""
    given = {key: value for key, value in job.items() if value is not None}
    for key, value in given.items():
        if key not in known:
            problems.refuse(key, "a field among " + " ".join(["kind", *known]), "unknown")
        elif not known[key](value):
            problems.refuse(key, known[key].__doc__, repr(value)[:100])
    return {key: tuple(value) if isinstance(value, list) else value
            for key, value in given.items() if key in known and known[key](value)}


def _request(kind: str, job: dict, sent: bytes, roots: Roots, problems: _Problems):
    """Of a job's fields; sent: vanilla proofs that are no file, b"" for none."""
    from ..prove import post, snap

    given = {"storage": tuple(roots.folders), **_fields(job, _FIELDS[kind], problems)}
    if sent and "vanilla" in given:
        problems.refuse("vanilla", "one of a path and bytes", "both")
    if not sent and not given.keys() & {"vanilla", "sector", "sectors"}:
        problems.refuse("vanilla", "sectors or vanilla proofs", "neither")
    if "vanilla" in given:
        problems.attempt(roots.check, given["vanilla"])
    given = {"vanilla": sent or None, **given}
    if kind == "snap":
        request = snap.Request(**given)
    else:
        request = post.Request(kind, **given | {"sectors": tuple(post.Wanted(*w) for w in given.get("sectors", ()))})
    problems.attempt(lambda: roots.check(*request.files()))
    return request


def to_job(request, here: bool) -> tuple[dict, bytes]:
    """(job, vanilla) of which `from_job` makes the same request; vanilla proofs are read, and b"" where there are none.

    here: a bare name without storage is of this folder, else of the daemon's storage. Raises CuzkError (INPUT).
    """
    place = lambda name: os.path.abspath(name) if "/" in name or here and not request.storage else name
    job = {name: getattr(request, name) for name in _FIELDS[request.kind]} | {"kind": request.kind}
    vanilla = b"" if request.vanilla is None else read_source(job.pop("vanilla"))
    if request.kind == "snap":
        job["sector"] = request.sector and place(request.sector)
    else:
        job["sectors"] = [[one.sector if one.sector.isdigit() else place(one.sector), one.comm_r]
                          for one in request.sectors] or None
    job["storage"] = [os.path.abspath(folder) for folder in request.storage] or None
    return {key: value for key, value in job.items() if value is not None}, vanilla
