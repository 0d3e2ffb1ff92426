"""`cuzk submit | wait | cancel | jobs | drain`: what a running daemon is asked. No JAX; NumPy in `submit` alone."""
from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Callable, List, Optional

import typer

from ..errors import CuzkError, Exit, Problem, fail
from . import options as o
from . import output
from .apart import apart
from .main import app, command, groups
from .report import SCHEMA_VERSION, answer, lines
from .streams import put, put_json

EVERY = 2.0     # seconds of one question

Jobs = Annotated[List[str], typer.Argument(metavar="JOB...", help="Ids, as submitted or as the status shows them.")]
Address = Annotated[Optional[str], typer.Option(
    "--address", help="Of the daemon: unix:PATH or HOST:PORT. [env: CUZK_DAEMON]")]


@dataclass(frozen=True)
class SubmitOptions:
    """Options of every `cuzk submit`."""

    request_id: Annotated[Optional[str], typer.Option(
        help="The job's id. The same again joins the first; something else under it is refused.")] = None
    priority: Annotated[Optional[str], typer.Option(
        help="low, normal, high or critical; that of the kind by default.")] = None
    deadline: o.Deadline = None
    address: Address = None
    json_errors: o.JsonErrors = False


def connect(option: str | None):
    """A client of the daemon. Raises CuzkError (USAGE)."""
    from ..daemon import address
    from ..daemon.client import Client

    return Client(address.parse(option, "--address"))


def submit(options: SubmitOptions, requests: Callable[[], list], problems: o.Problems) -> int:
    """Submit what `requests` gives, called apart from the main thread. problems: of the kind's own options.

    Raises CuzkError (USAGE) for these and for what is wrong with `options`.
    """
    deadline = problems.attempt(o.moment, options.deadline, "--deadline")
    if options.priority is not None:
        problems.attempt(o.choice, options.priority, ("low", "normal", "high", "critical"), "--priority")
    problems.check()

    def one(client, request) -> dict:
        from ..daemon.requests import to_job

        shown = {"kind": request.kind, **request.subject()}
        try:
            found = client.submit(*to_job(request, here=False), options.request_id or "", options.priority, deadline)
        except CuzkError as error:
            return {**shown, "job_id": None, "ok": False, "exit": int(error.exit),
                    "errors": [p.as_dict() for p in error.problems]}
        return {**shown, **found, "ok": True, "exit": 0, "errors": []}

    def work() -> list[dict]:
        with connect(options.address) as client:
            return [one(client, request) for request in requests()]

    return _report(apart(work, name="submit"), options.json_errors)


def _report(results: list[dict], quiet: bool) -> int:
    found = answer(results)
    if not quiet:
        lines(found)
    put_json(found)
    return found["exit"]


@app.command()
@command
def wait(
    jobs: Jobs,
    timeout: Annotated[Optional[str], typer.Option(help="At most so long, then exit 17: 30m, 90s.")] = None,
    out: Annotated[Optional[str], typer.Option(
        "-o", "--out", help="File of the proof; - puts it alone on standard output.")] = None,
    format: Annotated[str, typer.Option("--format", help="Of the file: json, raw, hex or base64.")] = "json",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    address: Address = None, json_errors: o.JsonErrors = False,
) -> int:
    """Wait for jobs of the daemon. Standard output is one JSON object, as of prove. The jobs go on if this is stopped.
    """
    problems = o.Problems()
    until = problems.attempt(o.moment, timeout, "--timeout")
    problems.attempt(o.choice, format, output.FORMATS, "--format")
    if out is not None and len(jobs) > 1:
        problems.refuse("--out", "one job", str(len(jobs)))
    problems.check()
    path = Path(out) if out and out != "-" else None
    if path is not None:
        output.existing(path, force, False, lambda proof: False)

    def work() -> list[dict]:
        with connect(address) as client:
            return [_awaited(client, job, until) for job in jobs]

    results = apart(work, name="wait")
    if path is not None and results[0]["ok"]:
        results[0]["file"] = str(path)
        output.write(path, output.encode(results[0], format), force)
    if out == "-" and results[0]["ok"]:
        put(output.encode(results[0], format))
        return 0
    found = answer(results)
    if not json_errors:
        lines(found)
    if out != "-":
        put_json(found)
    return found["exit"]


def _awaited(client, job: str, until: float | None) -> dict:
    """Its result, or one of a job that is not finished, or not known."""
    try:
        while True:
            left = EVERY if until is None else min(EVERY, max(until - time.time(), 0.001))
            result, _ = client.wait(job, left)
            if result is not None:
                return result
            if until is not None and time.time() >= until:
                raise fail(Exit.DEADLINE, f"wait for {job}", None, "its end within --timeout", "none; it goes on")
    except CuzkError as error:
        return {"job_id": job, "ok": False, "exit": int(error.exit), "errors": [p.as_dict() for p in error.problems],
                "warnings": [], "proof": None, "verified": False}


@app.command()
@command
def cancel(
    jobs: Jobs,
    reason: Annotated[str, typer.Option(help="Told to whoever waits.")] = "cancelled by cuzk cancel",
    address: Address = None, json_errors: o.JsonErrors = False,
) -> int:
    """Cancel jobs of the daemon. Exit 10 where one is not known; one that has ended stays as it is."""
    def one(client, job: str) -> dict:
        try:
            return {"job_id": job, "was_running": client.cancel(job, reason), "ok": True, "exit": 0, "errors": []}
        except CuzkError as error:
            return {"job_id": job, "was_running": False, "ok": False, "exit": int(error.exit),
                    "errors": [p.as_dict() for p in error.problems]}

    def work() -> list[dict]:
        with connect(address) as client:
            return [one(client, job) for job in jobs]

    return _report(apart(work, name="cancel"), json_errors)


@groups["jobs"].command("list")
@command
def list_jobs(
    json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False, address: Address = None,
    json_errors: o.JsonErrors = False,
) -> int:
    """Show the jobs that the daemon has, or has had lately, and what is kept of jobs that were stopped."""
    def work() -> list[dict] | None:
        try:
            with connect(address) as client:
                return client.jobs()
        except CuzkError:
            if address is not None:
                raise
            return None             # no daemon runs

    found, kept = apart(work, name="jobs"), [_shown(job) for job in _kept()]
    if json:
        put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "daemon": found is not None,
                  "jobs": found or [], "kept": kept})
    else:
        ages = [f"{job['job_id']}  kept  partitions {','.join(map(str, job['partitions'])) or 'none'}  "
                f"{time.time() - job['kept_at_unix']:.0f}s ago" for job in kept]
        put("".join(line + "\n" for line in [*map(_line, found or []), *ages]).encode())
    return 0


@groups["jobs"].callback(invoke_without_command=True)
def _jobs(context: typer.Context) -> None:
    """Jobs of a running daemon, and of runs that were stopped; alone the same as `list`."""
    if context.invoked_subcommand is None:
        list_jobs(json=False, address=None, json_errors=False)


def _kept() -> list:
    from ..prove import journal

    return journal.kept()


def _shown(job) -> dict:
    from ..prove import joblock

    return {"job_id": job.job_id, "partitions": job.partitions, "kept_at_unix": round(job.kept_at, 3),
            "owner_pid": joblock.owner(job.job_id), "folder": str(job.folder)}


@groups["jobs"].command("show")
@command
def show_job(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job that was stopped.")],
    json_errors: o.JsonErrors = False,
) -> int:
    """Show what is kept of a job that was stopped, as one JSON object."""
    found = [_shown(one) for one in _kept() if one.job_id == job]
    if not found:
        raise fail(Exit.INPUT, "find the job", job, "a job that was stopped, as `cuzk jobs list` shows them", "none")
    put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "kept": found})
    return 0


@groups["jobs"].command("clean")
@command
def clean_jobs(
    jobs: Annotated[Optional[List[str]], typer.Argument(metavar="[JOB]...", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="Of every job that nobody proves now.")] = False,
    json_errors: o.JsonErrors = False,
) -> int:
    """Forget what is kept of jobs that were stopped. A job that is being proved is left alone, exit 15."""
    if bool(jobs) == all:
        raise fail(Exit.USAGE, "read the arguments", None, "jobs, or --all", "both" if jobs else "neither")
    kept = _kept()
    unknown = set(jobs or ()) - {job.job_id for job in kept}
    results = [{"job_id": name, "ok": False, "exit": int(Exit.INPUT), "errors": [
        p.as_dict() for p in fail(Exit.INPUT, "find the job", name, "a job that was stopped", "none").problems]}
        for name in sorted(unknown)]
    for job in kept:
        if all or job.job_id in jobs:
            results.append(_clean(job))
    return _report([r for r in results if not (all and r["exit"] == Exit.BUSY)], json_errors)


def _clean(job) -> dict:
    from ..prove import joblock, journal

    owner, errors = joblock.owner(job.job_id), []
    try:
        if owner is not None:
            raise fail(Exit.BUSY, f"forget {job.job_id}", None, "a job that nobody proves", f"process {owner} does")
        journal.remove(job)
    except CuzkError as error:
        errors = error.problems
    except OSError as error:
        errors = output.unwritable(job.folder, error).problems
    return {"job_id": job.job_id, "ok": not errors, "exit": int(errors[0].exit) if errors else 0,
            "errors": [p.as_dict() for p in errors]}


def _line(job: dict) -> str:
    end = job["finished_unix"] or time.time()
    done = "" if job["partitions_total"] is None else f"{job['partitions_done']}/{job['partitions_total']}"
    parts = [job["job_id"], job["kind"], job["subject"], job["state"], done, f"{end - job['submitted_unix']:.1f}s",
             job["error"] or ""]
    return "".join(c if c.isprintable() else " " for c in "  ".join(filter(None, parts)))


@app.command()
@command
def drain(
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the last job.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="The daemon ends after its last job.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take jobs again.")] = False,
    address: Address = None, json_errors: o.JsonErrors = False,
) -> int:
    """Let the daemon take no new jobs, and wait until it has finished those it has."""
    if undo and (stop or no_wait):
        raise CuzkError(Problem(Exit.USAGE, "read the options", "--undo", "alone", "with another"))

    def work() -> int:
        with connect(address) as client:
            return client.drain(not no_wait and not undo, stop, undo)

    put_json({"schema_version": SCHEMA_VERSION, "ok": True, "exit": 0, "unfinished": apart(work, name="drain")})
    return 0
