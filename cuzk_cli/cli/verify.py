"""What every `cuzk verify` does around the verifier."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Callable, Optional

import typer

from ..errors import CuzkError, Exit, fail
from . import options as o
from . import output
from .apart import apart
from .report import SCHEMA_VERSION
from .streams import put_json, read, say


@dataclass(frozen=True)
class VerifyOptions:
    """Options of every `cuzk verify`."""

    proof: Annotated[str, typer.Option("--proof", help="A file, - for standard input: raw, hex, base64 or our JSON.")]
    params: o.Params = None
    test_params: o.TestParams = False
    vk: Annotated[Optional[str], typer.Option(
        "--vk", help="Verifying key file, else the one among the parameters.")] = None
    public_inputs: Annotated[Optional[str], typer.Option(
        "--public-inputs", help="JSON file of the public inputs, - for standard input; with --sector-size it stands "
                                "for all other facts.")] = None
    show_inputs: Annotated[bool, typer.Option(
        "--show-inputs", help="Print the public inputs in the circuit's order.")] = False
    json_errors: o.JsonErrors = False


def _given(options: VerifyOptions, kind: str, sector_size: str | None):
    """The request of --public-inputs. Raises CuzkError (USAGE)."""
    from ..prove import inputs

    if sector_size is None:
        raise fail(Exit.USAGE, "find the circuit", "--sector-size", "2KiB … 64GiB, with --public-inputs", "not given")
    source = options.public_inputs
    if source == "-" and options.proof == "-":
        raise fail(Exit.USAGE, "read the options", "--public-inputs, --proof", "one from standard input", "both")
    return inputs.Request(kind, sector_size, read("-", output.LARGEST) if source == "-" else source)


def verify(options: VerifyOptions, kind: str, sector_size: str | None, request: Callable[[], object]) -> int:
    """Verify a proof for what `request` gives, called apart from the main thread, or --public-inputs; the exit code."""
    def work() -> dict:
        source = "standard input" if options.proof == "-" else options.proof
        data = output.decode(read(options.proof, output.LARGEST), source)
        from ..prove import api

        asked = request() if options.public_inputs is None else _given(options, kind, sector_size)
        shown = {"show_inputs": True} if options.show_inputs else {}
        return api.verify(asked, data, api.Options(
            params=options.params, test_params=options.test_params, vk=options.vk), **shown)

    try:
        answer = apart(work, name="verify")
    except CuzkError as error:
        answer = {"ok": False, "exit": int(error.exit), "verified": False,
                  "errors": [p.as_dict() for p in error.problems]}
    for text in answer.get("warnings", ()):
        say(f"cuzk: warning: {text}")
    for problem in answer["errors"]:
        if not options.json_errors:
            say(f"cuzk: {problem['message']}")
    put_json({"schema_version": SCHEMA_VERSION, **answer})
    return answer["exit"]
