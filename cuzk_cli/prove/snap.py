"""SnapDeals: from what a user gives (a sector's files, or vanilla proofs and commitments) to what synthesis takes."""
from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..circuits.snap import PartitionWitness
from ..errors import CuzkError, Exit, fail
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import Size, parse_size
from ..sectors import commitments as commitment_text
from ..sectors import encoding, locate, vanilla
from ..sectors.preflight import make_vanilla, preflight
from ..sectors.trees import Hash
from ..sectors.vanilla import Commitments, PartitionProof
from .kind import plain_number
from .source import read_source, source_name

KIND_OF = {"comm_r_old": "comm_r", "comm_r_new": "comm_r", "comm_d_new": "comm_d"}


class Request(NamedTuple):
    """One sector update as it was asked for."""

    sector: str | None = None           # DIR/s-t0M-N or a bare name
    storage: tuple = ()
    vanilla: str | bytes | None = None  # a path, "-" for standard input, or the bytes
    sector_size: str | None = None
    comm_r_old: str | None = None       # hex, base64 or CID
    comm_r_new: str | None = None
    comm_d_new: str | None = None
    partitions: tuple | None = None     # indices, None for all
    h: int | None = None                # height in the public input, not of the encoding

    @property
    def kind(self) -> str:
        return "snap"

    @property
    def label(self) -> str:
        """What results and files are named after."""
        return Path(self.sector.rstrip("/")).name if self.sector else "vanilla"

    def subject(self) -> dict:
        """The ids that the result of a failure carries."""
        return {"sector": self.label if self.sector else None}

    def prepare(self, hash: Hash = poseidon_batch, check: bool = True) -> Prepared:
        """Read, check and, where no vanilla proofs are given, make them.

        check: refuse files that do not belong together and vanilla proofs that do not hold; without it both are taken as
        they are. Raises CuzkError (INPUT, USAGE) with all problems at once.
        """
        return _prepare(self, hash, check)

    def public(self, hash: Hash = poseidon_batch) -> Prepared:
        """The public facts alone, of a sector's files or of the options; no vanilla proof is read or made.

        Raises CuzkError (INPUT, USAGE).
        """
        found = _given(self)
        size = parse_size(self.sector_size) if self.sector_size else None
        if self.sector is not None:
            checked = preflight(locate.find(self.sector, self.storage), found, hash, size)
            return _prepared(self, checked, checked.size, checked.commitments, [])
        return _prepared(self, None, size, _given_or_refused(self, found), [])


class Prepared(NamedTuple):
    """Vanilla proofs that were checked, or that `check` was told to leave alone."""

    request: Request
    name: str | None            # sector's name
    miner: int | None
    number: int | None
    size: Size
    commitments: Commitments
    partitions: list[int]
    proofs: list[PartitionProof]
    warnings: list[str]

    @property
    def kind(self) -> str:
        return "snap"

    def facts(self) -> dict:
        """What a result says of its input."""
        return {
            "kind": "snap", "sector": self.name, "miner": self.miner, "sector_number": plain_number(self.number),
            "sector_size": self.size.name, "sector_size_bytes": self.size.bytes,
            "commitments": {name: {"hex": value.hex(), "cid": commitment_text.to_cid(KIND_OF[name], value)}
                            for name, value in self.commitments._asdict().items()},
            "public_inputs": [[w.tobytes().hex() for w in self.public_inputs(k)] for k in self.partitions],
            "partitions": self.partitions,
        }

    def vanilla(self) -> list[bytes]:
        """The bincode of every partition's proof."""
        return [encoding.encode(proof, self.size) for proof in self.proofs]

    def vanilla_facts(self) -> dict:
        """What `cuzk vanilla` adds to the facts."""
        return {"proofs": [base64.b64encode(data).decode() for data in self.vanilla()]}

    def identity(self) -> bytes:
        """Commitments, size and partitions."""
        return b"".join(self.commitments) + repr((self.size.bytes, self.partitions)).encode()

    def public_inputs(self, partition: int) -> np.ndarray:
        """[k_and_h_select, comm_r_old, comm_d_new, comm_r_new] as words uint64[4, 4]."""
        c = self.commitments
        head = np.array([[self.selector(partition), 0, 0, 0]], np.uint64)
        return np.concatenate([head, np.frombuffer(c.comm_r_old + c.comm_d_new + c.comm_r_new, "<u8").reshape(3, 4)])

    def selector(self, partition: int) -> int:
        """k + h_select · partitions."""
        return partition + self.size.snap_h_select(self.request.h) * self.size.snap_partitions

    def witness(self, partition: int) -> PartitionWitness:
        """What the circuit takes from a partition's vanilla proof."""
        proof = self.proofs[self.partitions.index(partition)]
        words = [np.frombuffer(v, "<u8") for v in (self.commitments.comm_r_old, self.commitments.comm_d_new,
                                                   self.commitments.comm_r_new)]
        return PartitionWitness(self.selector(partition), *words, proof.comm_c, proof.r_old.root[0],
                                proof.r_new.root[0], proof.apex_leaves, proof.r_old.leaf, proof.d_new.leaf,
                                proof.r_old.siblings, proof.r_new.siblings, proof.d_new.siblings)


def _given(request: Request) -> dict[str, bytes]:
    """The commitments among the options. Raises CuzkError (USAGE) with every one that cannot be read."""
    found, problems = {}, []
    for name, kind in KIND_OF.items():
        text = getattr(request, name)
        if text is not None:
            try:
                found[name] = commitment_text.parse(text, kind, "--" + name.replace("_", "-"))
            except CuzkError as error:
                problems += error.problems
    if problems:
        raise CuzkError(*problems)
    return found


def check_height(h: int | None, size: Size) -> None:
    """Raises CuzkError (USAGE) for a height that no sector of this size is encoded with."""
    if h is not None and h not in size.snap_hs:
        raise fail(Exit.USAGE, "read the height", "--h", " or ".join(map(str, sorted(set(size.snap_hs)))), h)


def _chosen(request: Request, size: Size) -> list[int]:
    """The partitions asked for. Raises CuzkError (USAGE)."""
    check_height(request.h, size)
    wanted = list(range(size.snap_partitions)) if request.partitions is None else sorted(set(request.partitions))
    bad = [k for k in wanted if not 0 <= k < size.snap_partitions]
    if bad or not wanted:
        raise fail(Exit.USAGE, "choose partitions", "--partition", f"0 to {size.snap_partitions - 1} for {size.name}",
                   ",".join(map(str, bad)) or "none")
    return wanted


def _named(beside: dict[str, str], source) -> dict[str, bytes]:
    """The commitments of a request object. Raises CuzkError."""
    where = source or "standard input"
    return {name: commitment_text.parse(text, KIND_OF[name], f"{where}: {name}") for name, text in beside.items()}


def _given_or_refused(request: Request, found: dict[str, bytes]) -> Commitments:
    missing = ["--" + name.replace("_", "-") for name in KIND_OF if name not in found]
    if request.sector_size is None:
        missing.append("--sector-size")
    if missing:
        raise fail(Exit.USAGE, "find the public inputs", " ".join(missing), "given, as no sector is", "not given")
    return Commitments(*(found[name] for name in Commitments._fields))


def _prepared(request: Request, checked, size: Size, commitments: Commitments, proofs: list) -> Prepared:
    name, miner, number, warnings = None, None, None, []
    if checked is not None:
        name, miner, number, warnings = (*checked.sector[:3], list(checked.warnings))
    return Prepared(request, name, miner, number, size, commitments, _chosen(request, size), proofs, warnings)


def _prepare(request: Request, hash: Hash, check: bool) -> Prepared:
    expected = _given(request)
    size = parse_size(request.sector_size) if request.sector_size else None
    source = source_name(request.vanilla)
    checked, proofs = None, None
    if request.sector is not None:
        checked = preflight(locate.find(request.sector, request.storage), expected, hash, size, check)
        size, commitments = checked.size, checked.commitments
    elif request.vanilla is None:
        raise fail(Exit.USAGE, "find the input", None, "a sector, or --vanilla with --sector-size and the commitments",
                   "neither")
    elif size is None:
        raise fail(Exit.USAGE, "find the sector size", "--sector-size", "a size, as no sector is given", "none")
    if request.vanilla is not None:
        proofs, beside = encoding.read(read_source(request.vanilla), size, source)
        if checked is None:
            commitments = _given_or_refused(request, {**_named(beside, source), **expected})
        elif check:
            _compare(_named(beside, source), commitments, source)
    wanted = _chosen(request, size)
    if proofs is None:
        proofs = [make_vanilla(checked, k) for k in wanted]
    else:
        absent = [k for k in wanted if k >= len(proofs)]
        if absent:
            raise fail(Exit.INPUT, "find the vanilla proofs", source, f"{size.snap_partitions} partitions",
                       f"{len(proofs)}, not number {absent[0]}", "choose those that are there with --partition")
        proofs = [proofs[k] for k in wanted]
    if check:
        problems = []
        for k, proof in zip(wanted, proofs):
            try:
                vanilla.check(proof, k, commitments, size, hash, source)
            except CuzkError as error:
                problems += error.problems
        if problems:
            raise CuzkError(*problems)
    return _prepared(request, checked, size, commitments, proofs)


def _compare(named: dict[str, bytes], commitments: Commitments, source) -> None:
    """Raises CuzkError (INPUT) for every commitment beside the vanilla proofs that is not the sector's."""
    problems = []
    for name, value in named.items():
        actual = getattr(commitments, name)
        if value != actual:
            problems += fail(Exit.INPUT, f"compare its {name} with the sector's files", source or "standard input",
                             actual.hex(), value.hex(), "the vanilla proofs are of another sector").problems
    if problems:
        raise CuzkError(*problems)
