"""`cuzk params generate KIND`."""
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
        o.choice(device, o.DEVICES, "--device")
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


for _kind in KINDS:
    _generates(_kind)
