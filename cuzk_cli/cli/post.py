"""WinningPoSt and WindowPoSt on the command line: `cuzk prove|vanilla|verify|circuit digest winning|window`."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated, List, Optional

import typer

from ..errors import Exit, fail
from . import circuit, clients
from . import options as o
from . import prove as proving
from . import vanilla as making
from . import verify as verifying
from .main import command, groups
from .streams import LARGEST_INPUT, read

ALIASES = {"winning": ("winning-post", "wnpost"), "window": ("window-post", "windowed-post", "wpost", "wdpost")}
_LARGEST_LIST = 64 << 20        # bytes of --sectors-file

Randomness = Annotated[Optional[str], typer.Option("--randomness", help="32 bytes of the chain, as hex or base64.")]
PoStSectors = Annotated[Optional[List[str]], typer.Argument(
    metavar="[SECTOR]...", show_default=False,
    help="DIR/s-t0<miner>-<number>, or the bare name, or the number with --miner, with --storage.")]


@dataclass(frozen=True)
class PoStOptions:
    """Options of every command of a PoSt."""

    sector: Annotated[Optional[List[str]], typer.Option(
        "--sector", help="NUMBER:COMM_R, repeatable: a sector's commitment as hex, base64 or CID.")] = None
    sectors_file: Annotated[Optional[str], typer.Option(
        "--sectors-file", help="A line for each sector, SECTOR or SECTOR COMM_R; or JSON: a list of these, or of "
                               "objects {sector, comm_r}. - for standard input.")] = None
    miner: Annotated[Optional[str], typer.Option("--miner", help="t01000, f01000 or 1000.")] = None
    prover_id: Annotated[Optional[str], typer.Option("--prover-id", help="Instead of --miner: 32 bytes as hex.")] = None
    storage: o.Storage = None
    replica: Annotated[str, typer.Option(
        "--replica", help="sealed, update, or auto: the one whose comm_r was given, else update where it is.")] = "auto"
    registered_proof: Annotated[Optional[str], typer.Option(
        "--registered-proof", help="Number or name; by default the newest version.")] = None
    sector_size: o.SectorSize = None
    skip_faulty: Annotated[bool, typer.Option(
        "--skip-faulty", help="Leave out sectors that cannot be read, and say which and why.")] = False
    read_timeout: Annotated[float, typer.Option(
        "--read-timeout", min=0.001, max=86400, help="Seconds for the files of one sector.")] = 60.0


def _request(kind: str, given: PoStOptions, sectors, randomness, vanilla=None, partition=None):
    """Raises CuzkError (INPUT, USAGE)."""
    from ..prove import post

    return post.Request(kind, _wanted(given, sectors), randomness, given.miner, given.prover_id,
                        o.storage_folders(given.storage), given.replica, given.registered_proof, given.sector_size,
                        vanilla, o.partition_list(partition), given.skip_faulty, given.read_timeout)


def _wanted(given: PoStOptions, sectors) -> tuple:
    """Arguments, --sectors-file and --sector as one list; a --sector of a sector that is there gives its commitment.

    Raises CuzkError (INPUT, USAGE).
    """
    from ..prove.post import Wanted

    found = [Wanted(name) for name in sectors or ()]
    if given.sectors_file is not None:
        found += [Wanted(*entry) for entry in _listed(read(given.sectors_file, _LARGEST_LIST), given.sectors_file)]
    pairs = []
    for text in given.sector or ():
        number, colon, comm_r = text.partition(":")
        if not colon or not number:
            raise fail(Exit.USAGE, "read the sector", "--sector", "NUMBER:COMM_R", repr(text[:100]))
        pairs.append(Wanted(number, comm_r))
    places = {one.number: i for i, one in enumerate(found)}
    for one in pairs:
        place = places.get(one.number)
        if place is None or found[place].comm_r is not None:
            found.append(one)
        else:
            found[place] = found[place]._replace(comm_r=one.comm_r)
    if given.miner is not None:
        from ..protocol.actor import parse_miner

        miner = parse_miner(given.miner)
        found = [one._replace(sector=f"s-t0{miner}-{one.number}") if one.sector.isdigit() else one for one in found]
    return tuple(found)


def _listed(data: bytes, source: str) -> list[tuple[str, str | None]]:
    """The sectors of a file. Raises CuzkError (INPUT)."""
    name = "standard input" if source == "-" else source

    def bad(actual: str):
        return fail(Exit.INPUT, "read the list of sectors", name, "SECTOR or SECTOR COMM_R in each line, or JSON",
                    actual)

    try:
        text = data.decode()
        if text.lstrip()[:1] != "[":
            lines = [line.partition("#")[0].split() for line in text.splitlines()]
            entries = [line for line in lines if line]
        else:
            entries = [_entry(entry) for entry in json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise bad(str(error)[:200]) from None
    for i, entry in enumerate(entries):
        if not 1 <= len(entry) <= 2:
            raise bad(f"entry {i + 1}: {' '.join(entry)[:100]!r}")
    if not entries:
        raise bad("none")
    return [(entry[0], entry[1] if len(entry) == 2 else None) for entry in entries]


def _entry(value) -> list[str]:
    """Raises ValueError."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value).split()
    if isinstance(value, dict):
        parts = [value.get("sector", value.get("number")), value.get("comm_r", value.get("sealed_cid"))]
        if isinstance(parts[0], (str, int)) and (parts[1] is None or isinstance(parts[1], str)):
            return [str(part) for part in parts if part is not None]
    raise ValueError(f"{repr(value)[:100]} is no sector")


def _source(option: str | None) -> str | bytes | None:
    return read("-", LARGEST_INPUT) if option == "-" else option


def _problems(given: PoStOptions, sectors, randomness, vanilla, partition) -> o.Problems:
    """Of the options of a proof."""
    problems = o.Problems()
    problems.attempt(o.partition_list, partition)
    if not sectors and vanilla is None and given.sectors_file is None and not given.sector:
        problems.refuse(None, "sectors, --sectors-file or --vanilla", "none of them", operation="read the arguments")
    if randomness is None:
        problems.refuse("--randomness", "32 bytes as hex or base64", "not given")
    return problems


def _register(kind: str) -> None:
    """The commands of one kind."""
    name = {"winning": "WinningPoSt", "window": "WindowPoSt"}[kind]

    def named(group: typer.Typer, help: str):
        def decorate(function):
            for alias in ALIASES[kind]:
                group.command(alias, hidden=True, help=help)(function)
            return group.command(kind, help=help)(function)
        return decorate

    @named(groups["prove"], f"Prove one {name}. Standard output is one JSON object; a proof is verified before it is "
                            "written.")
    @command
    @o.taking(PoStOptions, "given")
    @o.taking(proving.ProveOptions)
    def prove(options: proving.ProveOptions, given: PoStOptions, sectors: PoStSectors = None,
              randomness: Randomness = None, vanilla: o.Vanilla = None, partition: o.Partition = None) -> int:
        problems = _problems(given, sectors, randomness, vanilla, partition)
        names = [os.path.basename(s.rstrip("/")) for s in sectors or ()]
        requests = lambda: [_request(kind, given, sectors, randomness, _source(vanilla), partition)]
        return proving.prove(options, kind, [{"miner": given.miner, "sectors": names}], requests, problems)

    @named(groups["submit"], f"Submit a {name} to the daemon. Standard output is one JSON object with the job's id. "
                             "Sectors must lie in the daemon's --storage folders; --vanilla is sent.")
    @command
    @o.taking(PoStOptions, "given")
    @o.taking(clients.SubmitOptions)
    def submit(options: clients.SubmitOptions, given: PoStOptions, sectors: PoStSectors = None,
               randomness: Randomness = None, vanilla: o.Vanilla = None, partition: o.Partition = None) -> int:
        problems = _problems(given, sectors, randomness, vanilla, partition)
        requests = lambda: [_request(kind, given, sectors, randomness, _source(vanilla), partition)]
        return clients.submit(options, requests, problems)

    @named(groups["vanilla"], f"Make the vanilla proofs of a {name} from the sectors' files.")
    @command
    @o.taking(PoStOptions, "given")
    @o.taking(making.VanillaOptions)
    def vanilla_of(options: making.VanillaOptions, given: PoStOptions, sectors: PoStSectors = None,
                   randomness: Randomness = None) -> int:
        return making.make(options, lambda: _request(kind, given, sectors, randomness))

    @named(groups["verify"], f"Verify a {name}. Standard output is one JSON object; exit 14 for a proof that does not "
                             "verify.")
    @command
    @o.taking(PoStOptions, "given")
    @o.taking(verifying.VerifyOptions)
    def verify(options: verifying.VerifyOptions, given: PoStOptions, sectors: PoStSectors = None,
               randomness: Randomness = None, partition: o.Partition = None) -> int:
        return verifying.verify(options, kind, given.sector_size,
                                lambda: _request(kind, given, sectors, randomness, None, partition))

    @circuit.digests.command(kind, help="Print JSON: counts and rows_sha256; with sectors or --vanilla also the "
                                        "witness of every partition.")
    @command
    @o.taking(PoStOptions, "given")
    def digest(given: PoStOptions, sectors: PoStSectors = None, randomness: Randomness = None,
               vanilla: o.Vanilla = None, partition: o.Partition = None,
               json_errors: o.JsonErrors = False) -> int:
        def request():
            if not sectors and vanilla is None and given.sectors_file is None and not given.sector:
                return None
            return _request(kind, given, sectors, randomness, _source(vanilla), partition)

        if given.sector_size is None:
            raise fail(Exit.USAGE, "read the options", "--sector-size", "2KiB … 64GiB", "not given")
        return circuit.digest(kind, given.sector_size, request)


for _kind in ALIASES:
    _register(_kind)
