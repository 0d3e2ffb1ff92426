"""The one JSON object that a command answers with, also where it failed."""
from __future__ import annotations

from ..errors import CuzkError, Problem
from .streams import ClosedPipe, put_json, say

SCHEMA_VERSION = 1


def answer(results: list[dict], errors: list[Problem] = ()) -> dict:
    """{schema_version, ok, exit, results}, and errors that belong to no result.

    exit: the lowest code of `errors`, else that of the first result that failed.
    """
    exit = min((int(p.exit) for p in errors), default=next((r["exit"] for r in results if not r["ok"]), 0))
    found = {"schema_version": SCHEMA_VERSION, "ok": exit == 0, "exit": exit, "results": results}
    if errors:
        found["errors"] = [p.as_dict() for p in errors]
    return found


def lines(answered: dict) -> None:
    """Every problem of an answer, a line each, on standard error."""
    for part in (answered, *answered["results"]):
        for problem in part.get("errors", ()):
            say(f"cuzk: {problem['message']}")


def failed(problems: list[Problem], json: bool = True, quiet: bool = False, results: list[dict] = ()) -> int:
    """Report a command that failed as a whole; the exit code.

    json: standard output gets the object. quiet: the object alone, no lines. An output that cannot be written does
    not hide what went wrong first.
    """
    found = answer(list(results), problems)
    if not quiet:
        lines(found)
    if json:
        try:
            put_json(found)
        except (ClosedPipe, CuzkError):
            pass
    return found["exit"]
