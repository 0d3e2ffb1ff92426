"""`cuzk`: the command line's root. Commands import what they need when they run, so that `status` starts at once."""
from __future__ import annotations

import os
import sys
import traceback
from functools import wraps
from pathlib import Path

import typer

from .. import __version__
from ..errors import MEANING, CuzkError, Exit
from .streams import ClosedPipe, report, say

_EXIT_CODES = "Exit codes: " + " · ".join(f"{int(code)} {text}" for code, text in MEANING.items())

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
                  help="Filecoin sectors to verified Groth16 proofs, in JAX.", epilog=_EXIT_CODES,
                  context_settings={"help_option_names": ["-h", "--help"]})
groups = {name: typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=text, epilog=_EXIT_CODES) for name, text in {
    "prove": "Prove, verify and write proofs.",
    "verify": "Verify a proof.",
    "circuit": "Look at constraint systems.",
    "params": "Parameter files.",
}.items()}
for name, group in groups.items():
    app.add_typer(group, name=name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"cuzk {__version__}: the JAX prover (Python CLI), not the network's Rust daemon of the same name")
        raise typer.Exit


@app.callback()
def _root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True,
                                       help="Say which cuzk this is, and its version.")) -> None:
    pass


def log_file() -> Path:
    """Where traces of internal errors go."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuzk" / "error.log"


def internal_error(error: BaseException) -> None:
    """One line on standard error, the trace in the log file."""
    trace, where = "".join(traceback.format_exception(error)), "it could not be logged"
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        with open(log_file(), "a") as file:
            file.write(trace + "\n")
        where = f"trace in {log_file()}"
    except OSError:
        pass
    last = " ".join(f"{type(error).__name__}: {error}".split())
    say(f"cuzk: internal error: {last[:300]} ({where})")


def command(function):
    """Turn what a command raises into lines on standard error and an exit code."""
    @wraps(function)
    def wrapped(*args, **kwargs):
        try:
            code = function(*args, **kwargs)
        except CuzkError as error:
            report(error)
            code = error.exit
        except ClosedPipe:
            code = Exit.CLOSED_PIPE
        raise typer.Exit(int(code or 0))
    return wrapped


def run() -> None:
    """Entry point of `cuzk` and `jcuzk`."""
    from . import circuit, params, prove, status, verify  # noqa: F401  (each registers its commands)

    try:
        app()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        code = int(Exit.SIGINT)
    except Exception as error:      # the last resort: never a traceback on a user's terminal
        internal_error(error)
        code = int(Exit.INTERNAL)
    leave(code)


def leave(code: int) -> None:
    """End the process without waiting for threads that still compile: everything of ours is written by now."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
