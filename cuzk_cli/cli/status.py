"""`cuzk status`: what all provers of this user are doing. Imports neither JAX nor NumPy."""
from __future__ import annotations

import time
from typing import Annotated, Optional

import typer

from ..status.check import CODES
from ..status.check import check as nagios
from ..status.prometheus import prometheus
from ..status.reader import STALE_AFTER, read_status
from ..status.schema import ANSWER
from ..status.table import table
from . import options as o
from .main import app, command
from .streams import put, put_json


@app.command()
@command
def status(
    json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
    check: Annotated[bool, typer.Option("--check", help="A Nagios line; exit 0, 1, 2 or 3.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of --json.")] = False,
    prometheus_: Annotated[bool, typer.Option("--prometheus", help="Textfile format.")] = False,
    warning: Annotated[float, typer.Option("-w", help="Age in seconds, for --check.")] = STALE_AFTER,
    critical: Annotated[float, typer.Option("-c", help="Age in seconds, for --check.")] = 60.0,
    absent: Annotated[str, typer.Option(help="What no status at all is for --check: ok, warning, critical, unknown.")] = "unknown",
    pid: Annotated[Optional[int], typer.Option(help="Of one process only.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again every 1.5 s.")] = False,
    status_dir: o.StatusDir = None,
) -> int:
    """Show workers, jobs and partitions."""
    if check:
        if absent.upper() not in CODES:
            put(b"CUZK UNKNOWN - --absent is ok, warning, critical or unknown\n")
            return CODES["UNKNOWN"]
        line, code = nagios(read_status(status_dir, pid), warning, critical, absent)
        put(line.encode() + b"\n")
        return code
    if schema:
        put_json(ANSWER)
        return 0
    while True:
        answer = read_status(status_dir, pid)
        if json:
            put_json(answer)
        elif prometheus_:
            put(prometheus(answer).encode())
        else:
            put(((("\x1b[2J\x1b[H") if watch else "") + table(answer) + "\n").encode())
        if not watch:
            return 0
        time.sleep(1.5)
