"""WinningPoSt and WindowPoSt: from sectors and randomness, or vanilla proofs, to what synthesis takes.

One request is one result: all its sectors, by number, in partitions; the last sector fills the last partition up.
"""
from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..circuits.fallback import PartitionWitness
from ..errors import CuzkError, Exit, Problem, fail
from ..protocol.actor import miner_of, parse_miner, prover_id
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import REGISTERED, SIZES, Registered, Size, parse_registered, parse_size
from ..sectors import commitments, locate, parallel, post
from ..sectors.files import SectorFile, present
from ..sectors.post import SectorProof
from ..sectors.preflight import open_replica
from ..sectors.trees import Hash
from .kind import plain_number
from .source import read_source, source_name

REPLICAS = ("auto", "sealed", "update")
READ_SECONDS = 60.0         # for one sector


class Wanted(NamedTuple):
    """One sector of a request: its files, or its number alone where vanilla proofs or a verification need no more."""

    sector: str                     # DIR/s-t0M-N, a bare name, or a number
    comm_r: str | None = None       # hex, base64 or CID

    @property
    def number(self) -> int:
        """Raises CuzkError (USAGE)."""
        name = os.path.basename(self.sector.rstrip("/"))
        if name.isascii() and name.isdigit() and len(name) < 20:
            return int(name)
        return locate.parse_name(name)[1]


class Request(NamedTuple):
    """One PoSt as it was asked for."""

    kind: str                           # "winning" or "window"
    sectors: tuple = ()                 # Wanted
    randomness: str | None = None       # hex or base64
    miner: str | None = None
    prover_id: str | None = None        # hex
    storage: tuple = ()
    replica: str = "auto"
    registered_proof: str | None = None
    sector_size: str | None = None
    vanilla: str | bytes | tuple | None = None      # a path, "-" for standard input, the bytes, bincodes by sector
    partitions: tuple | None = None     # indices, None for all
    skip_faulty: bool = False
    read_seconds: float = READ_SECONDS
    before: int = 0                     # sectors of partitions before these, which V1's challenges hang on

    @property
    def label(self) -> str:
        """What results and files are named after: its sector, or the miner of several."""
        names = [os.path.basename(wanted.sector.rstrip("/")) for wanted in self.sectors]
        if len(names) == 1:
            return names[0]
        return names[0][2:].rpartition("-")[0] or "vanilla" if names else "vanilla"

    def subject(self) -> dict:
        """The ids that the result of a failure carries."""
        return {"miner": self.miner, "sectors": [wanted.sector for wanted in self.sectors]}

    def files(self) -> list[Path]:
        """Those of the sectors, there or not. Raises CuzkError (INPUT, USAGE)."""
        found = [locate.find(wanted.sector, self.storage) for wanted in self.sectors if not wanted.sector.isdigit()]
        return [path for sector in found for path in (sector.sealed, sector.cache, sector.update, sector.update_cache)]

    def prepare(self, hash: Hash = poseidon_batch, check: bool = True) -> Prepared:
        """Read, check and, where no vanilla proofs are given, make them. Raises CuzkError (INPUT, USAGE)."""
        return _prepare(self, hash, check)

    def public(self, hash: Hash = poseidon_batch) -> Prepared:
        """The public facts alone: numbers and comm_r, which are computed from files where they are not given.

        Raises CuzkError (INPUT, USAGE).
        """
        return _public(self, hash)


class Facts(NamedTuple):
    """What is public of one sector, and where its proof came from."""

    number: int
    comm_r: bytes
    replica: str | None         # "sealed", "update", None where its files were not read
    index: np.ndarray           # its challenges


class Prepared:
    """Vanilla proofs that were checked, or that `check` was told to leave alone."""

    def __init__(self, request: Request, proved: Registered, randomness: bytes, prover: bytes | None,
                 sectors: list[Facts], proofs: list[SectorProof], faulty: list[dict], warnings: list[str]):
        self.request, self.registered, self.randomness, self.prover = request, proved, randomness, prover
        self.kind, self.size, self.sectors, self.proofs = request.kind, proved.size, sectors, proofs
        self.faulty, self.warnings = faulty, warnings
        self.miner = None if prover is None else miner_of(prover)
        self.number = sectors[0].number if self.kind == "winning" else None
        self.partitions = _chosen(request, self._count)

    @property
    def _each(self) -> int:
        """Sectors of a partition."""
        return self.size.window_sectors if self.kind == "window" else 1

    @property
    def _count(self) -> int:
        return -(-len(self.sectors) // self._each)

    def _of(self, partition: int) -> list[int]:
        """Places of a partition's sectors; the last one fills it up."""
        first = partition * self._each
        return [min(i, len(self.sectors) - 1) for i in range(first, first + self._each)]

    def witness(self, partition: int) -> PartitionWitness:
        """What the circuit takes of the vanilla proofs; a WinningPoSt's challenges are sectors of their own."""
        proofs = [self.proofs[i] for i in self._of(partition)]
        rows = [np.stack([proof.comm_r_last for proof in proofs]), np.stack([proof.comm_c for proof in proofs]),
                np.stack([np.frombuffer(proof.comm_r, "<u8") for proof in proofs])]
        paths = [np.stack([getattr(proof.paths, name) for proof in proofs])
                 for name in ("leaf", "position", "siblings")]
        if self.kind == "winning":
            rows = [np.repeat(row, len(proofs[0].paths.leaf), axis=0) for row in rows]
            paths = [array.swapaxes(0, 1) for array in paths]
        return PartitionWitness(*rows, *paths)

    def public_inputs(self, partition: int) -> np.ndarray:
        """For each sector of the circuit comm_r and its challenges, words uint64[n, 4]."""
        out = []
        for i in self._of(partition):
            sector = self.sectors[i]
            comm_r, index = np.frombuffer(sector.comm_r, "<u8"), np.zeros((len(sector.index), 4), np.uint64)
            index[:, 0] = sector.index
            if self.kind == "winning":
                out.append(np.stack([np.broadcast_to(comm_r, index.shape), index], axis=1).reshape(-1, 4))
            else:
                out.append(np.concatenate([comm_r[None], index]))
        return np.concatenate(out)

    def facts(self) -> dict:
        """What a result says of its input."""
        return {
            "kind": self.kind, "miner": self.miner, "prover_id": self.prover and self.prover.hex(),
            "randomness": self.randomness.hex(), "registered_proof": self.registered.number,
            "registered_proof_version": self.registered.version,
            "sector_size": self.size.name, "sector_size_bytes": self.size.bytes,
            "sectors": [{"sector": plain_number(s.number), "comm_r": s.comm_r.hex(),
                         "comm_r_cid": commitments.to_cid("comm_r", s.comm_r), "replica": s.replica}
                        for s in self.sectors],
            "faulty_sectors": self.faulty,
        }

    def vanilla(self) -> list[bytes]:
        """The bincode of every sector's proof."""
        return [post.encode(proof, self.size) for proof in self.proofs]

    def vanilla_facts(self) -> dict:
        """What `cuzk vanilla` adds to the facts."""
        return {"sectors": [
            {**entry, "challenges": facts.index.tolist(), "vanilla": base64.b64encode(data).decode()}
            for entry, facts, data in zip(self.facts()["sectors"], self.sectors, self.vanilla())]}

    def identity(self) -> bytes:
        """Randomness, sectors and partitions; the challenges hang on the version."""
        rows = [(s.number, s.comm_r.hex()) for s in self.sectors]
        place = (self.request.before,) if self.request.before else ()
        return repr((self.kind, self.registered.number, self.size.bytes, self.randomness.hex(), rows,
                     self.partitions, *place)).encode()


def _chosen(request: Request, count: int) -> list[int]:
    wanted = list(range(count)) if request.partitions is None else sorted(set(request.partitions))
    bad = [k for k in wanted if not 0 <= k < count]
    if bad or not wanted:
        raise fail(Exit.USAGE, "choose partitions", "--partition", f"0 to {count - 1}",
                   ",".join(map(str, bad)) or "none")
    return wanted


# ---- options
class _Options(NamedTuple):
    """What the text of a request stands for."""

    randomness: bytes
    prover: bytes | None
    registered: Registered | None
    size: Size | None           # where it was given
    comm_r: dict                # number -> bytes
    warnings: list[str]


def _read_options(request: Request, files: bool) -> _Options:
    """Raises CuzkError (USAGE) with everything that is wrong."""
    problems: list[Problem] = []

    def attempt(function, *arguments):
        try:
            return function(*arguments)
        except CuzkError as error:
            problems.extend(error.problems)

    def refuse(option, expected, actual, exit=Exit.USAGE):
        problems.extend(fail(exit, "read the options", option, expected, actual).problems)

    warnings: list[str] = []
    randomness = attempt(_randomness, request.randomness, warnings)
    prover = attempt(_prover, request)
    registered = request.registered_proof and attempt(parse_registered, request.registered_proof, request.kind)
    size = attempt(parse_size, request.sector_size) if request.sector_size else None
    if size and registered and registered.size != size:
        refuse("--registered-proof", f"one of {size.name}", registered.size.name)
    if request.replica not in REPLICAS:
        refuse("--replica", " or ".join(REPLICAS), repr(request.replica))
    comm_r, seen, miners = {}, set(), set()
    for wanted in request.sectors:
        number = attempt(lambda: wanted.number)
        if number is None:
            continue
        name = os.path.basename(wanted.sector.rstrip("/"))
        if not name.isdigit():
            miners.add(locate.parse_name(name)[0])
        elif files:
            refuse(wanted.sector, "a sector's name, s-t0<miner>-<number>", "a number alone")
        if number in seen:
            refuse(wanted.sector, "each sector once", f"sector {number} twice", Exit.INPUT)
        seen.add(number)
        if wanted.comm_r is not None:
            comm_r[number] = attempt(commitments.parse, wanted.comm_r, "comm_r", f"comm_r of sector {number}")
    if len(miners) > 1:
        refuse("sectors", "sectors of one miner", ", ".join(f"t0{m}" for m in sorted(miners)), Exit.INPUT)
    elif miners and prover is None and not problems:
        prover = prover_id(next(iter(miners)))
    elif miners and prover is not None and miner_of(prover) not in miners:
        refuse("--miner", f"t0{next(iter(miners))}, as the sectors are", f"t0{miner_of(prover)}", Exit.INPUT)
    if request.kind == "winning" and len(seen) > 1:
        refuse("sectors", "one sector for a WinningPoSt", str(len(seen)))
    if problems:
        raise CuzkError(*problems)
    return _Options(randomness, prover, registered, size or (registered.size if registered else None), comm_r, warnings)


def _randomness(text: str | None, warnings: list[str]) -> bytes:
    """32 bytes that are a field element."""
    option = "--randomness"
    if text is None:
        raise fail(Exit.USAGE, "read the randomness", option, "32 bytes as hex or base64", "not given")
    data = commitments.decode_text(text)
    if data is None or len(data) != 32:
        raise fail(Exit.USAGE, "read the randomness", option, "32 bytes as hex or base64",
                   f"{text[:100]!r}" if data is None else f"{len(data)} bytes")
    if data[31] & 0xC0:         # the caller's part on chain (lotus chain/proofs/ffi): make it a field element
        data = data[:31] + bytes([data[31] & 0x3F])
        warnings.append(f"{option}: its two top bits were cleared, as the chain does")
    return data


def _prover(request: Request) -> bytes | None:
    if request.miner is not None:
        found = prover_id(parse_miner(request.miner))
        if request.prover_id is not None and bytes.fromhex(_hex32(request.prover_id)) != found:
            raise fail(Exit.USAGE, "compare the prover id with the miner", "--prover-id", found.hex(),
                       request.prover_id)
        return found
    return None if request.prover_id is None else bytes.fromhex(_hex32(request.prover_id))


def _hex32(text: str) -> str:
    text = text.strip().lower().removeprefix("0x")
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise fail(Exit.USAGE, "read the prover id", "--prover-id", "64 hex digits", repr(text[:100]))
    return text


def _registered(options: _Options, kind: str, size: Size) -> Registered:
    """What was given, else the newest version that WindowPoSt has."""
    return options.registered or Registered(kind, list(REGISTERED[kind])[-1], size)


# ---- vanilla proofs
def _prepare(request: Request, hash: Hash, check: bool) -> Prepared:
    options = _read_options(request, files=request.vanilla is None)
    if request.vanilla is None:
        if not request.sectors:
            raise fail(Exit.USAGE, "find the input", None, "sectors, or --vanilla", "neither")
        return _from_files(request, options, hash, check)
    if options.size is None:
        raise fail(Exit.USAGE, "find the sector size", "--sector-size", "a size or a registered proof, with --vanilla",
                   "none")
    if isinstance(request.vanilla, tuple):
        source, proofs = None, post.decode_all(request.vanilla, options.size, request.kind)
    else:
        source = source_name(request.vanilla)
        proofs = post.read(read_source(request.vanilla), options.size, request.kind, source)
    proofs = sorted(proofs, key=lambda proof: proof.sector)
    problems: list[Problem] = []
    numbers = [proof.sector for proof in proofs]
    for a, b in zip(numbers, numbers[1:]):
        if a == b:
            problems += fail(Exit.INPUT, "read the vanilla proofs", source, "each sector once",
                             f"sector {a} twice").problems
    named = {wanted.number for wanted in request.sectors}
    if named and named != set(numbers):
        problems += fail(Exit.INPUT, "compare the vanilla proofs with the sectors", source,
                         " ".join(map(str, sorted(named))), " ".join(map(str, numbers))).problems
    if request.kind == "winning" and len(proofs) != 1:
        problems += fail(Exit.INPUT, "read the vanilla proofs", source, "one sector for a WinningPoSt",
                         str(len(proofs))).problems
    for proof in proofs:
        given = options.comm_r.get(proof.sector)
        if check and given is not None and given != proof.comm_r:
            problems += fail(Exit.INPUT, f"compare comm_r of sector {proof.sector}", source, given.hex(),
                             proof.comm_r.hex()).problems
    if problems:
        raise CuzkError(*problems)
    proved = _registered(options, request.kind, options.size)
    facts = [Facts(proof.sector, proof.comm_r, None, _challenges(proved, options, proof.sector, i))
             for i, proof in enumerate(proofs, request.before)]
    if check:
        for proof, fact in zip(proofs, facts):
            try:
                post.check(proof, proved.size, fact.index, hash, source)
            except CuzkError as error:
                problems += error.problems
        if problems:
            raise CuzkError(*problems[:20])
    return Prepared(request, proved, options.randomness, options.prover, facts, proofs, [], options.warnings)


def _challenges(proved: Registered, options: _Options, number: int, i: int) -> np.ndarray:
    return post.challenges(proved.kind, proved.version, proved.size, options.randomness, number, i)


def _in_parallel(request: Request, work, wanted: list[Wanted]) -> tuple[list, list[tuple[Wanted, CuzkError]]]:
    """work(i, wanted) of every sector: what it gave, None where it failed or was late; and the failures."""
    found = parallel.each(work, wanted, lambda one: one.sector, request.read_seconds)
    failures = [(one, result) for one, result in zip(wanted, found) if isinstance(result, CuzkError)]
    return [None if isinstance(result, CuzkError) else result for result in found], failures


def _all(failures: list[tuple[Wanted, CuzkError]]) -> CuzkError:
    """Every sector that failed, with its reasons."""
    return CuzkError(*[p for _, error in failures for p in error.problems])


def _from_files(request: Request, options: _Options, hash: Hash, check: bool) -> Prepared:
    wanted = sorted(request.sectors, key=lambda w: w.number)
    opened, failures = _in_parallel(request, lambda i, one: _size_of(request, options, one), wanted)
    sizes = {size.bytes: size for size in opened if size is not None}
    if len(sizes) > 1:
        odd = [f"{one.sector} {size.name}" for one, size in zip(wanted, opened) if size is not None]
        raise fail(Exit.INPUT, "compare the sizes of the sectors", None, "one size", ", ".join(odd[:20]))
    good = [one for one, size in zip(wanted, opened) if size is not None]
    if failures and not (request.skip_faulty and good):
        raise _all(failures)
    proved = _registered(options, request.kind, next(iter(sizes.values())))
    while True:
        made, more = _in_parallel(
            request, lambda i, one: _prove_sector(request, options, proved, i, one, hash, check), good)
        failures += more
        if not more:
            break
        left = [one for one, proof in zip(good, made) if proof is not None]
        if not (request.skip_faulty and left):
            raise _all(failures)
        good = left
        if proved.version != "V1" or proved.kind != "window":       # else places, and challenges with them, have moved
            made = [proof for proof in made if proof is not None]
            break
    facts = [fact for fact, _, _ in made]
    warnings = options.warnings + [text for _, _, texts in made for text in texts]
    faulty = [{"sector": plain_number(one.number), "reason": "; ".join(p.line() for p in error.problems)}
              for one, error in failures]
    warnings += [f"sector {entry['sector']} left out: {entry['reason']}" for entry in faulty]
    return Prepared(request, proved, options.randomness, options.prover, facts, [proof for _, proof, _ in made], faulty,
                    warnings)


def _size_of(request: Request, options: _Options, one: Wanted) -> Size:
    """Of a sector's replica. Raises CuzkError (INPUT)."""
    sector = locate.find(one.sector, request.storage)
    path = sector.sealed if request.replica == "sealed" or not present(sector.update) else sector.update
    with SectorFile(path) as file:
        size = SIZES.get(file.size)
    if size is None or options.size is not None and size != options.size:
        raise fail(Exit.INPUT, "check the size", path, options.size.name if options.size else "a sector size",
                   size.name if size else f"{file.size} bytes")
    return size


def _prove_sector(request: Request, options: _Options, proved: Registered, i: int, one: Wanted, hash: Hash,
                  check: bool) -> tuple[Facts, SectorProof, list[str]]:
    """(facts, proof, warnings) of one sector; its files are closed again."""
    number = one.number
    replica = open_replica(locate.find(one.sector, request.storage), request.replica, options.comm_r.get(number),
                           proved.size, hash, check)
    index = _challenges(proved, options, number, i)
    proof = post.make(number, replica.comm_r, replica.comm_c, replica.tree, proved.size, index)
    if check:
        post.check(proof, proved.size, index, hash, replica.sector.name)
    return Facts(number, replica.comm_r, replica.which, index), proof, replica.warnings


# ---- public facts
def _public(request: Request, hash: Hash) -> Prepared:
    options = _read_options(request, files=False)
    if not request.sectors:
        raise fail(Exit.USAGE, "find the public inputs", "--sector", "NUMBER:COMM_R of every sector, or its files",
                   "none")
    wanted = sorted(request.sectors, key=lambda w: w.number)
    unknown = [one for one in wanted if one.comm_r is None]
    found, size = dict(options.comm_r), options.size
    which: dict[int, str] = {}
    if unknown:
        bare = [one.sector for one in unknown if one.sector.isdigit()]
        if bare:
            raise fail(Exit.USAGE, "find the public inputs", "--sector", "NUMBER:COMM_R", " ".join(bare))
        opened, failures = _in_parallel(
            request, lambda i, one: open_replica(locate.find(one.sector, request.storage), request.replica, None, size,
                                                 hash), unknown)
        if failures:
            raise _all(failures)
        for one, replica in zip(unknown, opened):
            found[one.number], which[one.number], size = replica.comm_r, replica.which, size or replica.size
    if size is None:
        raise fail(Exit.USAGE, "find the sector size", "--sector-size",
                   "a size or a registered proof, as no files are given", "none")
    proved = _registered(options, request.kind, size)
    facts = [Facts(one.number, found[one.number], which.get(one.number), _challenges(proved, options, one.number, i))
             for i, one in enumerate(wanted)]
    return Prepared(request, proved, options.randomness, options.prover, facts, [], [], options.warnings)
