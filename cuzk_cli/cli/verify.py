"""`cuzk verify snap`."""
from __future__ import annotations

from typing import Annotated, Optional

import typer

from ..errors import CuzkError
from . import options as o
from . import output
from .apart import apart
from .main import command, groups
from .report import SCHEMA_VERSION
from .streams import put_json, read, say


@groups["verify"].command("snap-deals", hidden=True)
@groups["verify"].command("update", hidden=True)
@groups["verify"].command("snap")
@command
def snap(
    proof: Annotated[str, typer.Option("--proof", help="A file, - for standard input: raw, hex, base64 or our JSON.")],
    sector: Annotated[Optional[str], typer.Argument(
        help="The sector; not needed with --comm-* and --sector-size.")] = None,
    storage: o.Storage = None, sector_size: o.SectorSize = None, comm_r_old: o.CommROld = None,
    comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None, partition: o.Partition = None,
    params: o.Params = None, test_params: o.TestParams = False,
    vk: Annotated[Optional[str], typer.Option(
        "--vk", help="Verifying key file, else the one among the parameters.")] = None,
    json_errors: o.JsonErrors = False,
) -> int:
    """Verify a SnapDeals proof. Standard output is one JSON object; exit 14 for a proof that does not verify."""
    def work() -> dict:
        data = output.decode(read(proof, output.LARGEST), "standard input" if proof == "-" else proof)
        from ..prove import api

        request = api.Request(sector, o.storage_folders(storage), None, sector_size, comm_r_old, comm_r_new, comm_d_new,
                              o.partition_list(partition))
        return api.verify(request, data, api.Options(params=params, test_params=test_params, vk=vk))

    try:
        answer = apart(work, name="verify")
    except CuzkError as error:
        answer = {"ok": False, "exit": int(error.exit), "verified": False,
                  "errors": [p.as_dict() for p in error.problems]}
    for text in answer.get("warnings", ()):
        say(f"cuzk: warning: {text}")
    for problem in answer["errors"]:
        if not json_errors:
            say(f"cuzk: {problem['message']}")
    put_json({"schema_version": SCHEMA_VERSION, **answer})
    return answer["exit"]
