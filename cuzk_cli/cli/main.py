"""`cuzk`: the command line's root. Commands import what they need when they run, so that `status` starts at once."""
from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout
from functools import wraps

import typer

from .. import __version__
from ..errors import MEANING, CuzkError, Exit
from ..faults import as_error
from .apart import Stopped, catch_signals
from .report import failed
from .streams import ClosedPipe, answered, guard, put, say

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {int(code):3} {text}" for code, text in MEANING.items())

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
                  help="Filecoin sectors to verified Groth16 proofs, in JAX.", epilog=_EXIT_CODES,
                  context_settings={"help_option_names": ["-h", "--help"]})
_GROUPS = {
    "prove": "Prove, verify and write proofs.",
    "verify": "Verify a proof.",
    "vanilla": "Make vanilla proofs from sectors' files.",
    "circuit": "Look at constraint systems.",
    "params": "Parameter files.",
    "cache": "What is kept to be faster next time.",
    "submit": "Give work to a running daemon.",
    "jobs": "Jobs of a running daemon, and what is kept of those that were stopped.",
}
groups = {name: typer.Typer(no_args_is_help=name != "jobs", rich_markup_mode=None, help=text, epilog=_EXIT_CODES)
          for name, text in _GROUPS.items()}
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


def command(function):
    """Turn what a command raises into lines on standard error, an object on standard output and an exit code.

    `status` alone answers with another object, or with none: what it raises goes to standard error only.
    """
    @wraps(function)
    def wrapped(**given):
        alone = given.get("out") == "-" and "format" in given       # standard output is for the proof alone
        report = dict(json=not alone and function.__name__ != "status", quiet=given.get("json_errors", False))
        try:
            code = function(**given)
        except CuzkError as error:
            if error.exit == Exit.OUTPUT and error.problems[0].path == "standard output":
                report = dict(json=False, quiet=False)      # no object can say it
            code = failed(error.problems, **report)
        except ClosedPipe:
            code = Exit.CLOSED_PIPE
        except Exception as error:      # the last resort: never a traceback on a user's terminal
            code = failed(as_error("internal error", error).problems, **report)
        raise typer.Exit(int(code or 0))
    return wrapped


def run() -> None:
    """Entry point of `cuzk` and `jcuzk`."""
    guard()
    code = _run()
    checking = sys.argv[1:2] == ["status"] and "--check" in sys.argv
    if checking and not (answered() and code in (0, 1, 2, 3)):      # for a monitor, whatever is no answer is UNKNOWN
        if not answered():
            try:
                put(b"CUZK UNKNOWN - the check could not be made, standard error says why\n")
            except (ClosedPipe, CuzkError):
                pass
        code = 3
    leave(code)


def leave(code: int) -> None:
    """End the process without waiting for threads that still compile: everything of ours is written by now."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
    os._exit(code)


def _run() -> int:
    """The exit code of what the arguments ask for."""
    text = io.StringIO()        # help and version; commands write to the descriptor
    try:
        catch_signals()
        try:
            with redirect_stdout(text):
                # each registers its commands
                from . import batch, cache, clients, daemon, params, porep, post, serve, snap, status  # noqa: F401

                app()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if text.getvalue():
            say(text.getvalue()) if answered() else put(text.getvalue().encode())
        return code
    except Stopped as stopped:
        return stopped.exit
    except ClosedPipe:
        return int(Exit.CLOSED_PIPE)
    except CuzkError as error:
        return failed(error.problems, json=False)
    except Exception as error:
        return failed(as_error("internal error", error).problems, json=False)
