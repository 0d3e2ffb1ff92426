"""What every `cuzk verify` does around the verifier."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Callable, Optional

import typer

from ..errors import CuzkError
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
    json_errors: o.JsonErrors = False


def verify(options: VerifyOptions, request: Callable[[], object]) -> int:
    """Verify a proof for what `request` gives, called apart from the main thread; the exit code."""
    def work() -> dict:
        source = "standard input" if options.proof == "-" else options.proof
        data = output.decode(read(options.proof, output.LARGEST), source)
        from ..prove import api

        return api.verify(request(), data,
                          api.Options(params=options.params, test_params=options.test_params, vk=options.vk))

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
