"""`cuzk circuit inspect`, and what the digests of all kinds share."""
from __future__ import annotations

import json
from typing import Annotated, Callable

import typer

from ..protocol.table import KINDS, parse_size
from . import options as o
from .apart import apart
from .main import command, groups
from .streams import put

digests = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                      help="Digests of a constraint system and of witnesses, to compare implementations.")
groups["circuit"].add_typer(digests, name="digest")


inspections = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                          help="Counts, domain, sizes of the parameter files, memory.")
groups["circuit"].add_typer(inspections, name="inspect")


def _inspects(kind: str) -> None:
    @inspections.command(kind)
    @command
    def of_kind(
        sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
        params: o.Params = None, test_params: o.TestParams = False, memory_budget: o.MemoryBudget = None,
        json_errors: o.JsonErrors = False,
    ) -> int:
        """Print JSON of what a circuit takes. Nothing large is built."""
        def work() -> dict:
            from ..prove import api

            return api.inspect(kind, parse_size(sector_size).name, api.Options(
                params=params, test_params=test_params,
                memory_budget=o.size_in_bytes(memory_budget, "--memory-budget")))

        put(json.dumps(apart(work), indent=1, allow_nan=False).encode() + b"\n")
        return 0


for _kind in KINDS:
    _inspects(_kind)


def digest(kind: str, sector_size: str, request: Callable[[], object | None]) -> int:
    """Print the digests of a circuit and of the witnesses of what `request` gives, None for none."""
    def work() -> dict:
        from ..prove import api

        return api.digest(kind, parse_size(sector_size).name, request())

    put(json.dumps(apart(work), indent=1, allow_nan=False).encode() + b"\n")
    return 0
