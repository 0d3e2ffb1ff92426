"""PoRep, commit phase 2: from a phase 1 output, or public facts alone, to what synthesis takes."""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..circuits.stacked import PartitionWitness
from ..errors import CuzkError, Exit, Problem, fail
from ..protocol.actor import miner_of, parse_miner, prover_id
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import NON_INTERACTIVE, V1_1, Registered, Size, parse_registered, parse_size
from ..sectors import c1, graph, stacked
from ..sectors import commitments as commitment_text
from ..sectors.stacked import Facts, Proofs
from ..sectors.trees import Hash
from .kind import plain_number
from .source import read_source, source_name

_TEXTS = {"seed": "--seed", "ticket": "--ticket", "prover_id": "--prover-id", "porep_id": "--porep-id"}


class Request(NamedTuple):
    """One replica's proof as it was asked for."""

    c1: str | bytes | None = None       # a path, "-" for standard input, or the bytes
    miner: str | None = None            # t01000, f01000 or 1000
    prover_id: str | None = None        # 32 bytes, as hex or base64, instead of the miner; and so the next two
    ticket: str | None = None
    seed: str | None = None
    sector_number: int | None = None
    comm_r: str | None = None           # hex, base64 or CID
    comm_d: str | None = None
    porep_id: str | None = None         # 32 bytes, else those of the registered proof
    registered_proof: str | None = None # number or name
    sector_size: str | None = None
    partitions: tuple | None = None     # indices, None for all

    @property
    def kind(self) -> str:
        return "porep"

    @property
    def label(self) -> str:
        """What results and files are named after."""
        source = source_name(self.c1)
        if source is not None:
            return Path(source).name.split(".")[0] or "c1"
        if self.miner is None or self.sector_number is None:
            return "c1"
        try:
            return f"s-t0{parse_miner(self.miner)}-{self.sector_number}"
        except CuzkError:               # is said when it is prepared
            return "c1"

    def subject(self) -> dict:
        """The ids that the result of a failure carries."""
        return {"c1": source_name(self.c1), "sector_number": plain_number(self.sector_number)}

    def files(self) -> list[Path]:
        """None of a sector's."""
        return []

    def prepare(self, hash: Hash = poseidon_batch, check: bool = True) -> Prepared:
        """Read the phase 1 output and check it: facts against the options, vanilla proofs against the facts.

        check: False takes all of it as it is. Raises CuzkError (INPUT, USAGE) with all problems at once.
        """
        if self.c1 is None:
            raise fail(Exit.USAGE, "find the input", None, "the file of a phase 1 output, or - for standard input",
                       "none")
        prepared = _from_file(self, check)
        if check:
            problems = []
            for k in prepared.partitions:
                try:
                    stacked.check(prepared.part(k), k, prepared.known, prepared.challenges(k), prepared.parents(k),
                                  prepared.size, hash, source_name(self.c1))
                except CuzkError as error:
                    problems += error.problems
            if problems:
                raise CuzkError(*problems[:40])
        return prepared

    def public(self, hash: Hash = poseidon_batch) -> Prepared:
        """The public facts alone, of a phase 1 output or of the options. Raises CuzkError (INPUT, USAGE)."""
        return _from_options(self) if self.c1 is None else _from_file(self, True)


class Prepared(NamedTuple):
    """Facts of a replica, and its vanilla proofs where there are any."""

    request: Request
    registered: Registered
    porep_id: bytes
    miner: int | None
    number: int | None
    known: Facts
    partitions: list[int]
    proofs: Proofs | None
    warnings: list[str]

    @property
    def kind(self) -> str:
        return "porep"

    @property
    def size(self) -> Size:
        return self.registered.size

    def facts(self) -> dict:
        """What a result says of its input."""
        known, number = self.known, self.number
        named = self.miner is not None and number is not None
        found = {
            "kind": "porep", "sector": f"s-t0{self.miner}-{number}" if named else None, "miner": self.miner,
            "sector_number": plain_number(number), "sector_size": self.size.name, "sector_size_bytes": self.size.bytes,
            "registered_proof": self.registered.number, "registered_proof_name": _name(self.registered),
            "porep_id": self.porep_id.hex(), "replica_id": known.replica_id.hex(), "ticket": known.ticket.hex(),
            "seed": known.seed.hex(),
            "commitments": {name: {"hex": value.hex(), "cid": commitment_text.to_cid(name, value)}
                            for name, value in (("comm_r", known.comm_r), ("comm_d", known.comm_d))},
        }
        return {**found, "aggregated": False} if self.registered.version == NON_INTERACTIVE else found

    def identity(self) -> bytes:
        """Facts that the public inputs follow from, version and partitions."""
        known = self.known
        return b"".join((known.replica_id, known.comm_r, known.comm_d, known.seed, self.porep_id)) + repr(
            (self.registered.version, self.size.bytes, self.partitions)).encode()

    def challenges(self, partition: int) -> np.ndarray:
        """int64[challenges]."""
        return stacked.challenges(self.registered.version, self.size, self.known, partition)

    def parents(self, partition: int) -> np.ndarray:
        """int64[challenges, 14]."""
        return graph.parents(self.size, self.porep_id, self.registered.version, self.challenges(partition))

    def public_inputs(self, partition: int) -> np.ndarray:
        """Words uint64[3 + 18 · challenges, 4]."""
        return stacked.public_inputs(self.known, self.challenges(partition), self.parents(partition))

    def part(self, partition: int) -> Proofs:
        """The vanilla proofs of one partition."""
        count = self.size.porep_challenges
        return self.proofs.part(partition * count, count)

    def witness(self, partition: int) -> PartitionWitness:
        """What the circuit takes from a partition's vanilla proofs."""
        p, known, n = self.part(partition), self.known, self.size.porep_challenges
        columns = [a.reshape(n, 1 + graph.PARENTS, *a.shape[1:]) for a in (p.columns.position, p.columns.siblings)]
        position, siblings = columns[0].astype(np.uint64), columns[1]
        words = [np.frombuffer(v, "<u8") for v in (known.replica_id, known.comm_d, known.comm_r)]
        return PartitionWitness(
            *words, p.replica.root[0], p.columns.root[0], self.challenges(partition).astype(np.uint64), p.data.leaf,
            p.data.position.astype(np.uint64), p.data.siblings, p.column_rows[:, 1:], position[:, 1:], siblings[:, 1:],
            p.replica.position.astype(np.uint64), p.replica.siblings, position[:, 0], siblings[:, 0])


def _name(registered: Registered) -> str:
    return f"StackedDrg{registered.size.name}{registered.version}"


def _options(request: Request) -> tuple[dict[str, bytes], Registered | None, int | None]:
    """What the options say: 32 byte values by name, the registered proof, the miner. Raises CuzkError (USAGE)."""
    found, problems = {}, []

    def attempt(function, *arguments):
        try:
            return function(*arguments)
        except CuzkError as error:
            problems.extend(error.problems)

    for name in ("comm_r", "comm_d"):
        if getattr(request, name) is not None:
            found[name] = attempt(commitment_text.parse, getattr(request, name), name, "--" + name.replace("_", "-"))
    for name, option in _TEXTS.items():
        text = getattr(request, name)
        if text is not None:
            found[name] = commitment_text.decode_text(text)
            if found[name] is None or len(found[name]) != 32:
                actual = repr(text[:100]) if found[name] is None else f"{len(found[name])} bytes"
                problems += fail(Exit.USAGE, "read 32 bytes", option, "32 bytes as hex or base64", actual).problems
    registered = miner = None
    if request.registered_proof is not None:
        registered = attempt(parse_registered, request.registered_proof, "porep")
    size = None if request.sector_size is None else attempt(parse_size, request.sector_size)
    if registered is not None and size is not None and registered.size != size:
        problems += fail(Exit.USAGE, "read the sector size", "--sector-size",
                         f"{registered.size.name}, as the registered proof", size.name).problems
    if request.miner is not None:
        miner = attempt(parse_miner, request.miner)
        if miner is not None and found.setdefault("prover_id", prover_id(miner)) not in (None, prover_id(miner)):
            problems += fail(Exit.USAGE, "read the miner", "--miner, --prover-id", "one miner", "two").problems
    elif found.get("prover_id") is not None:
        miner = miner_of(found["prover_id"])
    if request.sector_number is not None and not 0 <= request.sector_number < 1 << 64:
        problems += fail(Exit.USAGE, "read the sector number", "--sector-number", "a number of 64 bits",
                         request.sector_number).problems
    if problems:
        raise CuzkError(*problems)
    return found, registered, miner


def _chosen(request: Request, registered: Registered, available: int | None = None) -> list[int]:
    """The partitions asked for. Raises CuzkError (USAGE, INPUT)."""
    count = stacked.partitions(registered.version, registered.size)
    if available is not None and available != count:
        raise fail(Exit.INPUT, "count the partitions", source_name(request.c1), f"{count} for {_name(registered)}",
                   f"{available}")
    wanted = list(range(count)) if request.partitions is None else sorted(set(request.partitions))
    bad = [k for k in wanted if not 0 <= k < count]
    if bad or not wanted:
        raise fail(Exit.USAGE, "choose partitions", "--partition", f"0 to {count - 1} for {_name(registered)}",
                   ",".join(map(str, bad)) or "none")
    return wanted


def _warnings(registered: Registered) -> list[str]:
    if registered.version != NON_INTERACTIVE:
        return []
    count = stacked.partitions(registered.version, registered.size)
    return [f"non-interactive PoRep: these are its {count} partition proofs; the network takes their aggregate "
            "(SnarkPack), which is not made here"]


def _from_file(request: Request, check: bool) -> Prepared:
    given, asked, miner = _options(request)
    path = source_name(request.c1)
    found = c1.parse(read_source(request.c1, c1.LARGEST), path)
    problems: list[Problem] = []

    def differs(what: str, expected, actual, hint: str | None = None) -> None:
        problems.extend(fail(Exit.INPUT, f"compare {what} with the phase 1 output", path, expected, actual,
                             hint).problems)

    size = parse_size(request.sector_size) if request.sector_size else asked.size if asked else found.size
    if size != found.size:
        raise fail(Exit.INPUT, "compare the sector size with the phase 1 output", path, size.name, found.size.name)
    registered = asked or found.registered or _recognised(found, given.get("porep_id"), path)
    if check and asked and found.registered and asked != found.registered:
        differs("--registered-proof", _name(asked), _name(found.registered))
    porep_id = given.get("porep_id") or registered.porep_id
    number = found.sector if request.sector_number is None else request.sector_number
    if check:
        for name in ("comm_r", "comm_d", "seed", "ticket"):
            if name in given and given[name] != getattr(found.facts, name):
                differs(_option(name), given[name].hex(), getattr(found.facts, name).hex())
        if found.sector is not None and number != found.sector:
            differs("--sector-number", number, found.sector, "it is of another sector")
        if "prover_id" in given and number is not None and not problems:
            expected = stacked.replica_id(given["prover_id"], number, found.facts.ticket, found.facts.comm_d, porep_id)
            if expected != found.facts.replica_id:
                differs("the replica id", expected.hex(), found.facts.replica_id.hex(),
                        f"miner, sector number, registered proof ({_name(registered)}) or PoRep id are another's")
    if problems:
        raise CuzkError(*problems)
    prepared = Prepared(request, registered, porep_id, miner, number, found.facts,
                        _chosen(request, registered, found.partitions), found.proofs, _warnings(registered))
    if check:
        _compare_version(prepared, found, path)
    return prepared


def _recognised(found: c1.C1, porep_id: bytes | None, path) -> Registered:
    version = stacked.recognise(found.size, found.proofs, found.facts, porep_id)
    if version is None:
        raise fail(Exit.INPUT, "find the registered proof", path, "the challenges and parents of one", "those of none",
                   "name it with --registered-proof; seed, replica id or proofs may be damaged")
    return Registered("porep", version, found.size)


def _compare_version(prepared: Prepared, found: c1.C1, path) -> None:
    """Raises CuzkError (INPUT) where the proofs are those of another registered proof."""
    first = prepared.challenges(0)[:1]
    parents = graph.parents(prepared.size, prepared.porep_id, prepared.registered.version, first)
    if (found.proofs.column_index[0] == np.concatenate([first, parents[0]])).all():
        return
    version = stacked.recognise(found.size, found.proofs, found.facts)
    if version is not None and version != prepared.registered.version:
        expected, actual = prepared.registered, prepared.registered._replace(version=version)
        raise fail(Exit.INPUT, "compare the first challenge and its parents", path, f"those of {_name(expected)}",
                   f"those of {_name(actual)}", "the registered proof is another")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _from_options(request: Request) -> Prepared:
    given, registered, miner = _options(request)
    version = registered.version if registered else V1_1
    needed = ["comm_r", "comm_d", "ticket"] + ([] if version == NON_INTERACTIVE else ["seed"])
    missing = [_option(name) for name in needed if name not in given]
    if "prover_id" not in given:
        missing.append("--prover-id or --miner")
    if request.sector_number is None:
        missing.append("--sector-number")
    if registered is None and request.sector_size is None:
        missing.append("--registered-proof or --sector-size")
    if missing:
        raise fail(Exit.USAGE, "find the public inputs", ", ".join(missing), "given, as no phase 1 output is",
                   "not given")
    if registered is None:
        registered = Registered("porep", version, parse_size(request.sector_size))
        if registered.size.registered is None:
            raise fail(Exit.USAGE, "find the registered proof", "--sector-size", "a size of the network",
                       registered.size.name)
    porep_id = given.get("porep_id") or registered.porep_id
    replica = stacked.replica_id(given["prover_id"], request.sector_number, given["ticket"], given["comm_d"], porep_id)
    facts = Facts(replica, given["comm_r"], given["comm_d"], given.get("seed", bytes(32)), given["ticket"])
    return Prepared(request, registered, porep_id, miner, request.sector_number, facts, _chosen(request, registered),
                    None, _warnings(registered))
