"""PoRep, commit phase 2, on the command line: `cuzk prove|verify|circuit digest porep`."""
from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Annotated, Optional

import typer

from . import circuit, clients
from . import options as o
from . import prove as proving
from . import verify as verifying
from .main import command, groups
from .streams import read

ALIASES = ("porep-c2", "commit2", "c2")

C1File = Annotated[Optional[str], typer.Argument(
    metavar="[C1FILE]", show_default=False,
    help="Output of commit phase 1, - for standard input: the API's JSON, that of lotus and curio, or supraseal's.")]


@dataclass(frozen=True)
class PoRepOptions:
    """The facts of a replica, in the order of the prover's request. Beside a file they are compared with it."""

    miner: Annotated[Optional[str], typer.Option("--miner", help="t01000, f01000 or 1000.")] = None
    prover_id: Annotated[Optional[str], typer.Option("--prover-id", help="Instead of --miner: 32 bytes as hex.")] = None
    ticket: Annotated[Optional[str], typer.Option("--ticket", help="Sealing randomness: hex or base64.")] = None
    seed: Annotated[Optional[str], typer.Option("--seed", help="Interactive randomness: hex or base64.")] = None
    sector_number: Annotated[Optional[int], typer.Option("--sector-number", min=0)] = None
    comm_r: Annotated[Optional[str], typer.Option(
        "--comm-r", help="Sealed commitment: hex, base64 or CID.")] = None
    comm_d: Annotated[Optional[str], typer.Option("--comm-d", help="Data commitment: hex, base64 or CID.")] = None
    porep_id: Annotated[Optional[str], typer.Option(
        "--porep-id", help="32 bytes as hex, instead of those of the registered proof.")] = None
    registered_proof: Annotated[Optional[str], typer.Option(
        "--registered-proof", help="Number or name; by default that of the file, else V1_1.")] = None
    sector_size: o.SectorSize = None


def _request(c1: str | None, given: PoRepOptions, partition: str | None):
    """Raises CuzkError (INPUT, USAGE)."""
    from ..prove import porep
    from ..sectors.c1 import LARGEST

    source = read("-", LARGEST) if c1 == "-" else c1
    return porep.Request(source, *astuple(given), o.partition_list(partition))


def _problems(c1: str | None, partition: str | None) -> o.Problems:
    """Of the options of a proof."""
    problems = o.Problems()
    problems.attempt(o.partition_list, partition)
    if c1 is None:
        problems.refuse(None, "the file of a phase 1 output, or - for standard input", "none",
                        operation="read the arguments")
    return problems


def _named(group: typer.Typer):
    """The command of a group under its name and aliases."""
    def decorate(function):
        for alias in ALIASES:
            group.command(alias, hidden=True)(function)
        return group.command("porep")(function)
    return decorate


@_named(groups["prove"])
@command
@o.taking(PoRepOptions, "given")
@o.taking(proving.ProveOptions)
def prove(options: proving.ProveOptions, given: PoRepOptions, c1: C1File = None, partition: o.Partition = None) -> int:
    """Prove a replica. Standard output is one JSON object; a proof is verified before it is written."""
    return proving.prove(options, "porep", [{"c1": None if c1 == "-" else c1}],
                         lambda: [_request(c1, given, partition)], _problems(c1, partition))


@_named(groups["submit"])
@command
@o.taking(PoRepOptions, "given")
@o.taking(clients.SubmitOptions)
def submit(options: clients.SubmitOptions, given: PoRepOptions, c1: C1File = None,
           partition: o.Partition = None) -> int:
    """Submit a replica to the daemon, with its file. Standard output is one JSON object with the job's id."""
    return clients.submit(options, lambda: [_request(c1, given, partition)], _problems(c1, partition))


@_named(groups["verify"])
@command
@o.taking(PoRepOptions, "given")
@o.taking(verifying.VerifyOptions)
def verify(options: verifying.VerifyOptions, given: PoRepOptions, c1: C1File = None,
           partition: o.Partition = None) -> int:
    """Verify a replica's proof, for a phase 1 output or for public facts alone: --comm-r, --comm-d, --prover-id or
    --miner, --sector-number, --ticket, --seed. Standard output is one JSON object; exit 14 for a proof that does not
    verify."""
    return verifying.verify(options, "porep", given.sector_size, lambda: _request(c1, given, partition))


@circuit.digests.command("porep")
@command
@o.taking(PoRepOptions, "given")
def digest(given: PoRepOptions,
           c1: Annotated[Optional[str], typer.Option("--c1", help="Output of commit phase 1.")] = None,
           partition: o.Partition = None, json_errors: o.JsonErrors = False) -> int:
    """Print JSON: counts and rows_sha256; with --c1 also the witness of every partition."""
    problems = o.Problems()
    if given.sector_size is None:
        problems.refuse("--sector-size", "2KiB … 64GiB", "not given")
    problems.check()
    return circuit.digest("porep", given.sector_size, lambda: None if c1 is None else _request(c1, given, partition))
