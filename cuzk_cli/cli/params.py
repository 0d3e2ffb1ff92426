"""`cuzk params generate KIND`, `check KIND` and `list`."""
from __future__ import annotations

from typing import Annotated

import typer

from ..params.atomic import discard_unfinished
from ..protocol.table import KINDS
from . import options as o
from .apart import Stopped, apart
from .main import command, groups
from .progress import MODES, Count
from .report import SCHEMA_VERSION
from .streams import put_json, say

generate = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make parameters for tests.")
groups["params"].add_typer(generate, name="generate")


def _generates(kind: str):
    @generate.command(kind)
    @command
    def of_kind(
        sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
        insecure_seed: Annotated[str, typer.Option("--insecure-seed", help="Whoever knows it can forge proofs.")],
        out: Annotated[str, typer.Option("--out", help="Folder; it is marked with TEST-PARAMETERS.json.")],
        device: o.Device = "auto", progress: o.Progress = "auto", json_errors: o.JsonErrors = False,
    ) -> int:
        """Make a circuit's parameter files from the trapdoor of a seed. The network does not accept proofs under them."""
        o.choice(progress, MODES, "--progress")
        o.device_name(device)
        shown = Count(progress, "points")

        def work() -> dict:
            from ..prove import api

            return api.generate(kind, sector_size, insecure_seed, out, device, shown,
                                warn=lambda text: say(f"cuzk: warning: {text}"))

        try:
            made = apart(work, name="generate")
        except Stopped as stopped:
            discard_unfinished()
            say(f"cuzk: stopped by {stopped.name}; no parameter file was finished")
            raise
        finally:
            shown.close()
        put_json({"schema_version": SCHEMA_VERSION, **made})
        return 0


check = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check parameter files.")
groups["params"].add_typer(check, name="check")


def _checks(kind: str):
    @check.command(kind)
    @command
    def of_kind(
        sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
        full: Annotated[bool, typer.Option("--full", help="Every point too: on its curve and in its subgroup.")] = False,
        params: o.Params = None, test_params: o.TestParams = False, device: o.Device = "auto",
        progress: o.Progress = "auto", json_errors: o.JsonErrors = False,
    ) -> int:
        """Compare a circuit's parameter files with the circuit and with the published digest, which is remembered."""
        o.choice(progress, MODES, "--progress")
        o.device_name(device)
        read, points = Count(progress, "bytes"), Count(progress, "points")

        def work() -> dict:
            from ..prove import api

            options = api.Options(params=params, test_params=test_params, device=device)
            return api.check(kind, sector_size, options, full, read, points)

        try:
            found = apart(work, name="check")
        finally:
            read.close()
            points.close()
        put_json({"schema_version": SCHEMA_VERSION, **found})
        return 0


for _kind in KINDS:
    _generates(_kind)
    _checks(_kind)


@groups["params"].command("list")
@command
def list_files(params: o.Params = None, test_params: o.TestParams = False, json_errors: o.JsonErrors = False) -> int:
    """The parameter files of a folder, with what is known of each. No file is read."""
    from ..params.check import listed
    from ..params.locate import parameter_folder
    from ..params.marker import read_marker

    folder = parameter_folder(params, test_params)
    files = listed(folder)
    marker = read_marker(folder.path)
    put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "errors": [], "folder": str(folder.path),
              "origin": folder.origin, "test_parameters": marker is not None, "insecure_seed": marker and marker.seed,
              "files": files})
    return 0
