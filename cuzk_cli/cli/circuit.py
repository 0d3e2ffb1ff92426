"""`cuzk circuit digest snap`."""
from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from ..errors import Exit, fail
from . import options as o
from .apart import apart
from .main import command, groups
from .streams import put

digest = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                     help="Digests of a constraint system and of witnesses, to compare implementations.")
groups["circuit"].add_typer(digest, name="digest")


@digest.command("snap")
@command
def snap(
    sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
    sector: o.SectorOption = None, storage: o.Storage = None, vanilla: o.Vanilla = None,
    comm_r_old: o.CommROld = None, comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None,
    partition: o.Partition = None,
    h: Annotated[Optional[int], typer.Option("--h", help="Height of the public input, not of the encoding.")] = None,
    json_errors: o.JsonErrors = False,
) -> int:
    """Print JSON: counts and rows_sha256; with a sector or --vanilla also the witness of every partition."""
    def work() -> dict:
        from ..prove import api
        from ..protocol.table import parse_size
        from .prove import vanilla_source

        size, request = parse_size(sector_size), None
        if h is not None and h not in size.snap_hs:
            raise fail(Exit.USAGE, "read the height", "--h", " or ".join(str(v) for v in sorted(set(size.snap_hs))), h)
        if sector is not None or vanilla is not None:
            request = api.Request(sector, o.storage_folders(storage), vanilla_source(vanilla), sector_size, comm_r_old,
                                  comm_r_new, comm_d_new, o.partition_list(partition))
        return api.digest(sector_size, request, h)

    put(json.dumps(apart(work), indent=1, allow_nan=False).encode() + b"\n")
    return 0
