"""SnapDeals on the command line: `cuzk prove|verify|circuit digest snap`."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ..protocol.table import parse_size
from . import circuit, clients
from . import options as o
from . import prove as proving
from . import vanilla as making
from . import verify as verifying
from .main import command, groups
from .streams import LARGEST_INPUT, read

def _request(sector, storage, vanilla, sector_size, comm_r_old, comm_r_new, comm_d_new, partition, h=None):
    from ..prove import snap

    return snap.Request(sector, o.storage_folders(storage), vanilla, sector_size, comm_r_old, comm_r_new, comm_d_new,
                        o.partition_list(partition), h)


def _source(option: str | None) -> str | bytes | None:
    """--vanilla as the prover takes it; standard input is read here, once. Raises CuzkError (INPUT)."""
    return read("-", LARGEST_INPUT) if option == "-" else option


@groups["prove"].command("snap-deals", hidden=True)
@groups["prove"].command("update", hidden=True)
@groups["prove"].command("snap")
@command
@o.taking(proving.ProveOptions)
def prove(
    options: proving.ProveOptions, sectors: o.Sectors = None, storage: o.Storage = None, vanilla: o.Vanilla = None,
    sector_size: o.SectorSize = None, comm_r_old: o.CommROld = None, comm_r_new: o.CommRNew = None,
    comm_d_new: o.CommDNew = None, partition: o.Partition = None,
) -> int:
    """Prove SnapDeals sector updates. Standard output is one JSON object; a proof is verified before it is written."""
    problems = o.Problems()
    problems.attempt(o.partition_list, partition)
    of_one = {"vanilla": vanilla, "comm-r-old": comm_r_old, "comm-r-new": comm_r_new, "comm-d-new": comm_d_new}
    given = [f"--{name}" for name, value in of_one.items() if value is not None]
    if sectors and len(sectors) > 1 and given:
        problems.refuse(", ".join(given), "one sector", str(len(sectors)))
    if not sectors and vanilla is None:
        problems.refuse(None, "a sector, or --vanilla", "neither", operation="read the arguments")
    subjects = [{"sector": Path(s.rstrip("/")).name} for s in sectors or []] or [{"sector": None}]

    def requests() -> list:
        source = _source(vanilla)
        return [_request(sector, storage, source, sector_size, comm_r_old, comm_r_new, comm_d_new, partition)
                for sector in sectors or [None]]

    return proving.prove(options, "snap", subjects, requests, problems)


@groups["submit"].command("snap-deals", hidden=True)
@groups["submit"].command("update", hidden=True)
@groups["submit"].command("snap")
@command
@o.taking(clients.SubmitOptions)
def submit(
    options: clients.SubmitOptions, sectors: o.Sectors = None, storage: o.Storage = None, vanilla: o.Vanilla = None,
    sector_size: o.SectorSize = None, comm_r_old: o.CommROld = None, comm_r_new: o.CommRNew = None,
    comm_d_new: o.CommDNew = None, partition: o.Partition = None,
) -> int:
    """Submit SnapDeals sector updates to the daemon. Standard output is one JSON object with the ids of the jobs.

    A sector must lie in the daemon's --storage folders, where a bare name is looked for; --vanilla is sent.
    """
    problems = o.Problems()
    problems.attempt(o.partition_list, partition)
    if not sectors and vanilla is None:
        problems.refuse(None, "a sector, or --vanilla", "neither", operation="read the arguments")
    if len(sectors or ()) > 1 and (vanilla is not None or options.request_id is not None):
        problems.refuse("--vanilla, --request-id", "one sector", str(len(sectors)))

    def requests() -> list:
        source = _source(vanilla)
        return [_request(sector, storage, source, sector_size, comm_r_old, comm_r_new, comm_d_new, partition)
                for sector in sectors or [None]]

    return clients.submit(options, requests, problems)


@groups["verify"].command("snap-deals", hidden=True)
@groups["verify"].command("update", hidden=True)
@groups["verify"].command("snap")
@command
@o.taking(verifying.VerifyOptions)
def verify(
    options: verifying.VerifyOptions,
    sector: Annotated[Optional[str], typer.Argument(
        help="The sector; not needed with --comm-* and --sector-size.")] = None,
    storage: o.Storage = None, sector_size: o.SectorSize = None, comm_r_old: o.CommROld = None,
    comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None, partition: o.Partition = None,
) -> int:
    """Verify a SnapDeals proof. Standard output is one JSON object; exit 14 for a proof that does not verify."""
    return verifying.verify(options, "snap", sector_size, lambda: _request(
        sector, storage, None, sector_size, comm_r_old, comm_r_new, comm_d_new, partition))


@groups["vanilla"].command("snap-deals", hidden=True)
@groups["vanilla"].command("update", hidden=True)
@groups["vanilla"].command("snap")
@command
@o.taking(making.VanillaOptions)
def vanilla_of(
    options: making.VanillaOptions,
    sector: Annotated[str, typer.Argument(help="DIR/s-t0<miner>-<number>, or the bare name.")],
    storage: o.Storage = None, sector_size: o.SectorSize = None, comm_r_old: o.CommROld = None,
    comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None,
) -> int:
    """Make the vanilla proofs of a SnapDeals sector update, one for each partition."""
    return making.make(options, lambda: _request(
        sector, storage, None, sector_size, comm_r_old, comm_r_new, comm_d_new, None))


@circuit.digests.command("snap")
@command
def digest(
    sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
    sector: o.SectorOption = None, storage: o.Storage = None, vanilla: o.Vanilla = None,
    comm_r_old: o.CommROld = None, comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None,
    partition: o.Partition = None,
    h: Annotated[Optional[int], typer.Option("--h", help="Height of the public input, not of the encoding.")] = None,
    json_errors: o.JsonErrors = False,
) -> int:
    """Print JSON: counts and rows_sha256; with a sector or --vanilla also the witness of every partition."""
    def request():
        if h is not None:
            from ..prove.snap import check_height

            check_height(h, parse_size(sector_size))
        if sector is None and vanilla is None:
            return None
        return _request(sector, storage, _source(vanilla), sector_size, comm_r_old, comm_r_new, comm_d_new, partition, h)

    return circuit.digest("snap", sector_size, request)
