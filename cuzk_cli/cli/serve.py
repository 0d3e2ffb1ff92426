"""`cuzk serve`: the status of all provers of this user over HTTP. Imports neither JAX nor NumPy."""
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, List, Optional

import typer

from ..status.reader import read_status
from . import options as o
from .apart import apart
from .main import app, command
from .streams import say

if TYPE_CHECKING:
    from ..serve import Server

DEFAULT = "127.0.0.1:9821"      # the port of the engine that this project follows


def begin(listen: str, token_file: str | None, status_dir: str | None, hosts: tuple[str, ...] = ()) -> Server:
    """A server of `status_dir` that runs, and a line that says where. Raises CuzkError (USAGE)."""
    from ..serve import read_token, start       # asyncio: `cuzk status` does without

    token = None if token_file is None else read_token(token_file)
    server = start(listen, token, lambda: read_status(status_dir), hosts)
    try:
        say(f"cuzk: the status is at {server.url}")
    except BaseException:       # a signal
        server.close()
        raise
    return server


@app.command()
@command
def serve(
    listen: Annotated[str, typer.Option(
        "--listen", metavar="ADDRESS", help="HOST:PORT, [IPv6]:PORT or unix:PATH.")] = DEFAULT,
    token_file: o.TokenFile = None,
    allow_host: Annotated[Optional[List[str]], typer.Option(
        "--allow-host", metavar="NAME", help="A name by which clients call this server, repeatable. IP addresses, "
                                             "localhost and this machine's name are known.")] = None,
    status_dir: o.StatusDir = None,
) -> int:
    """Show workers, jobs and partitions on a page, with /status, /metrics and /healthz."""
    with begin(listen, token_file, status_dir, tuple(allow_host or ())) as server:
        apart(server.wait, name="serve-wait")
    return 0
