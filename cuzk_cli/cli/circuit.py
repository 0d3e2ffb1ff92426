"""`cuzk circuit`: what its commands share."""
from __future__ import annotations

import json
from typing import Callable

import typer

from ..protocol.table import parse_size
from .apart import apart
from .main import groups
from .streams import put

digests = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                      help="Digests of a constraint system and of witnesses, to compare implementations.")
groups["circuit"].add_typer(digests, name="digest")


def digest(kind: str, sector_size: str, request: Callable[[], object | None]) -> int:
    """Print the digests of a circuit and of the witnesses of what `request` gives, None for none."""
    def work() -> dict:
        from ..prove import api

        return api.digest(kind, parse_size(sector_size).name, request())

    put(json.dumps(apart(work), indent=1, allow_nan=False).encode() + b"\n")
    return 0
