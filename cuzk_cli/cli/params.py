"""`cuzk params generate snap`."""
from __future__ import annotations

import threading
import time
from typing import Annotated

import typer

from ..errors import CuzkError, Exit
from . import options as o
from .main import command, groups, internal_error
from .prove import SCHEMA_VERSION
from .streams import put_json, report, say

generate = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make parameters for tests.")
groups["params"].add_typer(generate, name="generate")


@generate.command("snap")
@command
def snap(
    sector_size: Annotated[str, typer.Option("--sector-size", help="2KiB … 64GiB.")],
    insecure_seed: Annotated[str, typer.Option("--insecure-seed", help="Whoever knows it can forge proofs.")],
    out: Annotated[str, typer.Option("--out", help="Folder; it is marked with TEST-PARAMETERS.json.")],
    device: o.Device = "auto",
) -> int:
    """Make the parameter files of a circuit from the trapdoor of a seed. The network does not accept proofs under them."""
    from ..prove import api

    found, spoken = {}, [time.monotonic()]

    def progress(done: int, total: int) -> None:
        if time.monotonic() - spoken[0] > 5:
            spoken[0] = time.monotonic()
            say(f"{done} of {total} points")

    def work() -> None:
        try:
            found["answer"] = api.generate(sector_size, insecure_seed, out, device, progress,
                                           warn=lambda text: say(f"cuzk: warning: {text}"))
        except BaseException as error:      # carried to the main thread
            found["error"] = error

    thread = threading.Thread(target=work, daemon=True)     # JAX stays out of the main thread: signals are answered
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    error = found.get("error")
    if error is None:
        put_json({"schema_version": SCHEMA_VERSION, **found["answer"]})
        return 0
    if not isinstance(error, CuzkError):
        internal_error(error)
        return Exit.INTERNAL
    report(error)
    put_json({"schema_version": SCHEMA_VERSION, "ok": False, "exit": int(error.exit),
              "errors": [p.as_dict() for p in error.problems]})
    return error.exit
