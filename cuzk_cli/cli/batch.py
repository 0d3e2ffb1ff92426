"""`cuzk batch`: one job a line in, one result a line out, in the order in which they are done."""
from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass
from typing import Annotated, Iterator

import typer

from ..errors import CuzkError, Exit, Problem, fail
from ..params.atomic import discard_unfinished
from ..status import Tracker, Writer, status_folder
from . import options as o
from .apart import Stopped, apart, within
from .main import app, command
from .progress import MODES, Progress
from .prover import ProverOptions
from .report import SCHEMA_VERSION
from .streams import ClosedPipe, put_json, say

_LONGEST = 64 << 20     # bytes of a line


@dataclass(frozen=True)
class BatchOptions(ProverOptions):
    """Options of `cuzk batch`."""

    storage: o.Storage = None
    progress: o.Progress = "auto"
    json_errors: o.JsonErrors = False


@app.command()
@command
@o.taking(BatchOptions)
def batch(
    options: BatchOptions,
    jobs: Annotated[str, typer.Argument(
        help="A file of JSON lines, - for standard input: {\"kind\": \"snap\", \"sector\": …}, also id, priority, "
             "deadline, and the fields that the options of `cuzk prove` have.")],
) -> int:
    """Prove many jobs in one process; a bad line is answered like any other.

    With --storage, jobs may name paths in these folders only. The exit code is that of the first line that failed.
    """
    problems = o.Problems()
    options.check(problems)
    problems.attempt(o.choice, options.progress, MODES, "--progress")
    problems.check()
    with options.serving():
        return _batch(options, jobs)


def _batch(options: BatchOptions, jobs: str) -> int:
    tracker = Tracker(Writer(status_folder(options.status_dir), mode=options.mode,
                             warn=lambda text: say(f"cuzk: warning: {text}")))
    run, shown = _Run(options, jobs, tracker), Progress(options.progress)
    tracker.start()
    try:
        apart(run.work, lambda: shown.update(tracker.snapshot()), "batch")
    except Stopped as stopped:
        shown.close()
        run.stop(stopped)
        raise
    finally:
        shown.close()
        within(1.0, tracker.close)
    return run.exit


def read_lines(source: str) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, as they come. Raises CuzkError (INPUT)."""
    try:
        with sys.stdin.buffer if source == "-" else open(source, "rb") as file:
            number = 0
            while line := file.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    raise fail(Exit.INPUT, f"read line {number}", source, f"at most {_LONGEST} bytes", "more")
                if line.strip():
                    yield number, line
    except (OSError, ValueError) as error:
        raise fail(Exit.INPUT, "read the jobs", source, "a readable file",
                   getattr(error, "strerror", None) or error) from None


class _Anywhere:
    """Where no storage folders are named, jobs may name any path: whoever wrote them can read it anyway."""

    folders: list[str] = []

    def check(self, *paths) -> None:
        """Everything is allowed."""


def parse(line: bytes, roots) -> tuple:
    """A line -> (id, request, priority, deadline). Raises CuzkError (USAGE, INPUT) with everything that is wrong."""
    from ..daemon.requests import PRIORITIES, from_job

    try:
        job = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise fail(Exit.USAGE, "read the job", None, "a JSON object", str(error)[:200]) from None
    if not isinstance(job, dict):
        raise fail(Exit.USAGE, "read the job", None, "a JSON object", repr(job)[:100])
    id, priority, deadline = (job.pop(name, None) for name in ("id", "priority", "deadline"))
    problems = o.Problems()
    if id is not None and not isinstance(id, (str, int)):
        problems.refuse("id", "text or a number", repr(id)[:100])
    if priority is not None and priority not in PRIORITIES:
        problems.refuse("priority", " or ".join(PRIORITIES), repr(priority)[:100])
    if deadline is not None:
        deadline = problems.attempt(o.moment, str(deadline), "deadline")
    here = lambda value: os.path.abspath(value) if isinstance(value, str) and "/" in value else value
    for name in ("sector", "vanilla", "c1"):        # a batch stands where its user does
        job[name] = here(job.get(name))
    if isinstance(job.get("sectors"), list):
        job["sectors"] = [[here(one[0]), *one[1:]] if isinstance(one, list) and one else here(one)
                          for one in job["sectors"]]
    found = problems.attempt(from_job, json.dumps(job), b"", roots)
    problems.check()
    return id, found[0], PRIORITIES.get(priority), deadline


class _Run:
    """One batch; `stop` may be called from another thread than `work`."""

    def __init__(self, options: BatchOptions, source: str, tracker: Tracker):
        self._options, self._source, self._tracker = options, source, tracker
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}            # line -> exit code
        self._waiting: dict[int, str | None] = {}   # line -> id, of those without an answer
        self._prover = None
        self._closed: ClosedPipe | CuzkError | None = None

    @property
    def exit(self) -> int:
        """That of the first line that failed, 0 where none did."""
        return next((code for _, code in sorted(self._codes.items()) if code), 0)

    def work(self) -> None:
        """Submit every line, wait for every result."""
        from ..daemon.roots import Roots
        from ..prove.prover import Prover

        folders = o.storage_folders(self._options.storage)
        roots = Roots(folders) if folders else _Anywhere()
        tickets = []
        try:
            for number, line in read_lines(self._source):
                with self._lock:
                    self._waiting[number] = None
                try:
                    id, request, priority, deadline = parse(line, roots)
                except CuzkError as error:
                    self._answer(number, {"id": None, "kind": None, "ok": False, "exit": int(error.exit), "proof": None,
                                          "verified": False, "errors": [p.as_dict() for p in error.problems]})
                    continue
                with self._lock:
                    self._waiting[number] = id
                if self._prover is None:
                    self._prover = Prover(self._options.of_prover(wait=True), self._tracker,
                                          lambda text: say(f"cuzk: warning: {text}"))
                tickets.append(self._prover.submit(
                    request, priority, deadline,
                    deliver=lambda result, number=number, id=id: self._answer(number, {"id": id, **result})))
                if self._closed:
                    break
            for ticket in tickets:
                ticket.result.result()
                if self._closed:
                    raise self._closed
        finally:
            if self._prover is not None:
                self._prover.close()

    def _answer(self, number: int, result: dict) -> None:
        """Print one result. What cannot be printed ends the batch."""
        with self._lock:
            if self._waiting.pop(number, self) is self or self._closed:
                return
            self._codes[number] = result["exit"]
            if not self._options.json_errors:
                for problem in result.get("errors", ()):
                    say(f"cuzk: line {number}: {problem['message']}")
            try:
                put_json({"schema_version": SCHEMA_VERSION, "line": number, **result})
            except (ClosedPipe, CuzkError) as error:
                self._closed = error
                result.update(ok=False, exit=int(Exit.CLOSED_PIPE))     # its journal stays

    def stop(self, stopped: Stopped) -> None:
        """A signal came: stop the workers, answer for what is not finished."""
        problem = Problem(Exit(stopped.exit), f"stopped by {stopped.name}", actual="its proof was not finished")
        waiting = dict(self._waiting)
        say(f"cuzk: stopped by {stopped.name}, {len(waiting)} of {len(waiting) + len(self._codes)} jobs not finished")

        def answer() -> None:
            for number, id in waiting.items():
                self._answer(number, {"id": id, "ok": False, "exit": stopped.exit, "proof": None, "verified": False,
                                      "errors": [problem.as_dict()]})

        for step in (lambda: self._prover and self._prover.close(), answer, discard_unfinished):
            within(1.0, step)
