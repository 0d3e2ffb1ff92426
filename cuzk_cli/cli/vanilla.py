"""What every `cuzk vanilla` does around the proofs: the JSON object, or a file of them."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Callable, Optional

import typer

from . import options as o
from . import output
from .apart import apart
from .report import SCHEMA_VERSION
from .streams import put, put_json, say

FORMATS = ("json", "bincode")


@dataclass(frozen=True)
class VanillaOptions:
    """Options of every `cuzk vanilla`."""

    out: Annotated[Optional[str], typer.Option(
        "-o", "--out", help="File of the proofs; - puts them alone on standard output.")] = None
    format: Annotated[str, typer.Option(
        "--format", help="Of the file: json, as `prove --vanilla` reads it, or bincode, one after another.")] = "json"
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False
    json_errors: o.JsonErrors = False


def make(options: VanillaOptions, request: Callable[[], object]) -> int:
    """Make the vanilla proofs of what `request` gives, called apart from the main thread; the exit code.

    Raises CuzkError (INPUT, USAGE, OUTPUT).
    """
    o.choice(options.format, FORMATS, "--format")
    path = Path(options.out) if options.out not in (None, "-") else None
    if path is not None:
        output.existing(path, options.force, False, lambda proof: False)

    def work() -> tuple[dict, list[bytes]]:
        from ..prove import api

        return api.vanilla(request())

    found, proofs = apart(work, name="vanilla")
    for text in found["warnings"]:
        say(f"cuzk: warning: {text}")
    data = b"".join(proofs) if options.format == "bincode" else json.dumps(_document(found)).encode() + b"\n"
    if options.out == "-":
        put(data)
        return found["exit"]
    if path is not None:
        output.write(path, data, options.force)
        found = {**found, "file": str(path)}
    put_json({"schema_version": SCHEMA_VERSION, **found})
    return found["exit"]


def _document(found: dict):
    """The file: a list of base64 strings where there is nothing but proofs, else the facts with them."""
    if "proofs" in found:
        return found["proofs"]
    return {name: value for name, value in found.items() if name not in ("ok", "exit", "errors", "warnings")}
