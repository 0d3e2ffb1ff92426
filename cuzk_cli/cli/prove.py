"""What every `cuzk prove` does around the prover: options, status, progress, files and signals."""
from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Callable, Optional

import typer

from ..errors import CuzkError, Exit, Problem, fail
from ..params.atomic import discard_unfinished
from ..status import Tracker, Writer, status_folder
from . import options as o
from . import output, remote
from .apart import Stopped, apart, within
from .progress import MODES, Progress
from .prover import ProverOptions
from .report import answer, lines
from .streams import ClosedPipe, closed, put, put_json, say


@dataclass(frozen=True)
class ProveOptions(ProverOptions):
    """Options of every `cuzk prove`."""

    insecure_randomness: Annotated[Optional[str], typer.Option(
        help="Fix r and s by a seed, to compare bytes. Such a proof hides nothing.")] = None
    out: Annotated[Optional[str], typer.Option(
        "-o", "--out", help="File of the proof; - puts it alone on standard output.")] = None
    out_dir: Annotated[Optional[str], typer.Option(help="Folder of the proofs, <name>.<kind>.<ending>.")] = None
    format: Annotated[str, typer.Option("--format", help="Of the file: json, raw, hex or base64.")] = "json"
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False
    deadline: o.Deadline = None
    wait: Annotated[bool, typer.Option("--wait", help="Wait for another process that proves the same, "
                                                      "instead of exit 15.")] = False
    explain: Annotated[bool, typer.Option(
        "--explain", help="Check the input and print what a proof would take, memory by stage; prove nothing.")] = False
    daemon: Annotated[str, typer.Option(
        "--daemon", help="auto: a running daemon of the same version and parameters proves; never; require.")] = "auto"
    progress: o.Progress = "auto"
    json_errors: o.JsonErrors = False


def prove(options: ProveOptions, kind: str, subjects: list[dict], requests: Callable[[], list],
          problems: o.Problems) -> int:
    """Prove, print and write what `requests` gives; the exit code.

    subjects: for each request what its result names, should it be stopped. requests is called apart from the main thread.
    problems: of the kind's own options. Raises CuzkError (USAGE) for these and for what is wrong with `options`.
    """
    _check(options, len(subjects), problems)
    if closed(1) and not options.out_dir and options.out in (None, "-"):
        raise ClosedPipe        # there is nowhere to put a proof
    with options.serving():
        return _prove(options, kind, subjects, requests)


def _prove(options: ProveOptions, kind: str, subjects: list[dict], requests: Callable[[], list]) -> int:
    tracker = Tracker(Writer(status_folder(options.status_dir), mode=options.mode,
                             warn=lambda text: say(f"cuzk: warning: {text}")))
    run = _Run(options, kind, subjects, requests, tracker)
    shown = Progress(options.progress)
    try:
        results = apart(run.work, lambda: shown.update(run.snapshot()), "prove")
    except Stopped as stopped:
        shown.close()
        run.stop(stopped, quiet=options.json_errors)
        raise
    finally:
        shown.close()
        within(1.0, run.close)
    found = answer(results)
    if not options.json_errors:
        lines(found)
    if options.out != "-" or options.explain:
        put_json(found)
    elif found["ok"]:
        put(output.encode(results[0], options.format))
    return found["exit"]


def _check(options: ProveOptions, count: int, problems: o.Problems) -> None:
    """Raises CuzkError (USAGE) with every problem of the options."""
    options.check(problems)
    problems.attempt(o.choice, options.format, output.FORMATS, "--format")
    problems.attempt(o.choice, options.progress, MODES, "--progress")
    problems.attempt(o.choice, options.daemon, remote.MODES, "--daemon")
    problems.attempt(o.moment, options.deadline, "--deadline")
    if count > 1 and options.out is not None:
        problems.refuse("--out", "one proof", str(count), "use --out-dir for several")
    if options.out and options.out_dir:
        problems.refuse("-o, --out-dir", "one of them", "both")
    if options.out == "" or options.out_dir == "":
        problems.refuse("-o, --out-dir", "a name", "an empty one")
    problems.check()


class _Run:
    """One call of the prover and the files of its results; `stop` may be called from another thread than `work`."""

    def __init__(self, options: ProveOptions, kind: str, subjects: list[dict], requests: Callable, tracker: Tracker):
        self._options, self._kind, self._subjects, self._tracker = options, kind, subjects, tracker
        self._give = requests
        self._deadline = o.moment(options.deadline, "--deadline")       # counted from here
        self._paths: list[Path | None] = []
        self._finished: dict[int, dict] = {}
        self._provers: list = []
        self._remote: remote.Remote | None = None
        self._local = False
        self._writing = threading.Lock()

    def work(self) -> list[dict]:
        """One result for each request, in order."""
        from ..prove import api

        given = self._options
        requests = self._give()
        self._keep = given.insecure_randomness is None
        options = given.of_prover(insecure_randomness=given.insecure_randomness, wait=given.wait)
        if given.explain:
            return api.explain(requests, options)
        self._plan(requests)
        self._remote = remote.choose(given, requests, self._paths)
        if self._remote is not None:
            return self._remote.prove(requests, self._paths, self._deadline, self._on_result)
        self._local = True
        self._tracker.start()
        return api.prove(requests, options, self._tracker, self._on_result, self._existing,
                         warn=lambda text: say(f"cuzk: warning: {text}"), on_prover=self._provers.append,
                         deadline=self._deadline)

    def snapshot(self) -> dict:
        """What Progress shows."""
        return self._tracker.snapshot() if self._remote is None else self._remote.snapshot()

    def close(self) -> None:
        """Write a last status, if there is one."""
        if self._local:
            self._tracker.close()

    def _plan(self, requests: list) -> None:
        """The file of each."""
        given = self._options
        if given.out_dir:
            folder, ending = Path(given.out_dir), output.FORMATS[given.format]
            self._paths = [folder / f"{r.label}.{self._kind}.{ending}" for r in requests]
            if len(set(self._paths)) < len(self._paths):
                raise fail(Exit.USAGE, "name the output files", "--out-dir", "sectors with different names",
                           "the same name twice")
            output.make_folder(folder)
        else:
            self._paths = [Path(given.out) if given.out and given.out != "-" else None] * len(requests)

    def _existing(self, i: int, prepared, verifies) -> bytes | None:
        path = self._paths[i]
        return None if path is None else output.existing(path, self._options.force, self._keep, verifies)

    def _on_result(self, i: int, result: dict) -> None:
        path = self._paths[i]
        if path is not None and result["ok"]:
            result["file"] = str(path)
            try:
                if not result["reused"]:
                    with self._writing:
                        output.write(path, output.encode(result, self._options.format), self._options.force)
            except CuzkError as error:
                result.update(ok=False, exit=int(error.exit), file=None, errors=[p.as_dict() for p in error.problems])
        self._finished[i] = result

    def stop(self, stopped: Stopped, quiet: bool) -> None:
        """A signal came: stop the workers, finish the file being written, write a last status, say what is lost.

        Bounded in time; device work in flight is abandoned, and the process must end after this.
        """
        problem = Problem(Exit(stopped.exit), f"stopped by {stopped.name}", actual="its proof was not finished")
        results = [self._finished.get(i) or {
            "kind": self._kind, **subject, "ok": False, "exit": stopped.exit, "proof": None, "verified": False,
            "errors": [problem.as_dict()], "warnings": []} for i, subject in enumerate(self._subjects)]
        unfinished = sum(not r["ok"] for r in results)
        say(f"cuzk: stopped by {stopped.name}, {unfinished} of {len(results)} proofs not finished")

        def end_jobs() -> None:
            for job in self._tracker.snapshot()["pipelines"]:
                if not job["finished"]:
                    self._tracker.job_finished(job["job_id"], False, f"stopped by {stopped.name}", stopped.name,
                                               stopped.exit)

        end_remote = lambda: self._remote and self._remote.cancel(f"its client was stopped by {stopped.name}")
        for step in (end_jobs, end_remote, lambda: [prover.close() for prover in self._provers], self._writing.acquire,
                     discard_unfinished):
            within(1.0, step)
        if self._options.out != "-":
            found = {**answer(results), "ok": False, "exit": stopped.exit}
            within(0.5, lambda: _try_put(found))


def _try_put(found: dict) -> None:
    try:
        put_json(found)
    except (ClosedPipe, CuzkError):
        pass
