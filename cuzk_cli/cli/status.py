"""`cuzk status`: what all provers of this user are doing. Imports neither JAX nor NumPy."""
from __future__ import annotations

import time
from typing import Annotated, Optional

import typer

from ..errors import Exit, fail
from ..status import check as nagios
from ..status import schema as schemas
from ..status.prometheus import prometheus
from ..status.reader import STALE_AFTER, read_status
from ..status.table import table
from . import options as o
from .main import app, command
from .streams import put, put_json

EVERY = 1.5     # seconds, of --watch


@app.command()
@command
def status(
    json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of --json.")] = False,
    check: Annotated[bool, typer.Option("--check", help="A Nagios line; exit 0, 1, 2 or 3.")] = False,
    prometheus_: Annotated[bool, typer.Option("--prometheus", help="Textfile format.")] = False,
    warning: Annotated[float, typer.Option("-w", help="Age in seconds, for --check.")] = STALE_AFTER,
    critical: Annotated[float, typer.Option("-c", help="Age in seconds, for --check.")] = 60.0,
    absent: Annotated[str, typer.Option(
        help="What no process at all is for --check: ok, warning, critical, unknown.")] = "unknown",
    pid: Annotated[Optional[int], typer.Option(help="Of one process only.", min=1)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again every 1.5 s.")] = False,
    status_dir: o.StatusDir = None,
) -> int:
    """Show workers, jobs and partitions."""
    forms = {"--json": json, "--schema": schema, "--check": check, "--prometheus": prometheus_}
    chosen = [name for name, given in forms.items() if given]
    if len(chosen) > 1 or watch and chosen not in ([], ["--json"]):
        raise fail(Exit.USAGE, "read the options", None, "one form, and --watch for the table or --json",
                   ", ".join(chosen + ["--watch"] * watch))
    if schema:
        put_json(schemas.ANSWER)
        return 0
    if check:
        line, code = nagios.check(read_status(status_dir, pid), warning, critical, absent)
        put(line.encode() + b"\n")
        return code
    while True:
        answer = read_status(status_dir, pid)
        if json:
            put_json(answer)
        elif prometheus_:
            put(prometheus(answer).encode())
        else:
            put((("\x1b[2J\x1b[H" if watch else "") + table(answer) + "\n").encode())
        if not watch:
            return 0
        time.sleep(EVERY)
