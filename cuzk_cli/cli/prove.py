"""`cuzk prove snap`."""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..errors import CuzkError, Exit, Problem, fail
from ..params.atomic import discard_unfinished
from ..status import Tracker, Writer, status_folder
from . import options as o
from . import output
from .apart import Stopped, apart, within
from .main import command, groups
from .progress import MODES, Progress
from .report import answer, lines
from .streams import ClosedPipe, closed, put, put_json, read, say


@groups["prove"].command("snap-deals", hidden=True)
@groups["prove"].command("update", hidden=True)
@groups["prove"].command("snap")
@command
def snap(
    sectors: o.Sectors = None, storage: o.Storage = None, vanilla: o.Vanilla = None, sector_size: o.SectorSize = None,
    comm_r_old: o.CommROld = None, comm_r_new: o.CommRNew = None, comm_d_new: o.CommDNew = None,
    partition: o.Partition = None, params: o.Params = None, test_params: o.TestParams = False,
    insecure_randomness: Annotated[Optional[str], typer.Option(
        help="Fix r and s by a seed, to compare bytes. Such a proof hides nothing.")] = None,
    out: Annotated[Optional[str], typer.Option(
        "-o", "--out", help="File of the proof; - puts it alone on standard output.")] = None,
    out_dir: Annotated[Optional[str], typer.Option(help="Folder of the proofs, <sector>.snap.<ending>.")] = None,
    format: Annotated[str, typer.Option("--format", help="Of the file: json, raw, hex or base64.")] = "json",
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    device: o.Device = "auto",
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="The same as --device cpu.")] = False,
    workers: Annotated[Optional[int], typer.Option(min=1, max=256, help="Synthesis processes.")] = None,
    progress: o.Progress = "auto", json_errors: o.JsonErrors = False,
    status_dir: o.StatusDir = None,
    status_mode: Annotated[str, typer.Option(help="Permissions of the status file.")] = "0600",
) -> int:
    """Prove SnapDeals sector updates. Standard output is one JSON object; a proof is verified before it is written."""
    given = locals()
    mode = _check_options(given)
    if closed(1) and not out_dir and out in (None, "-"):
        raise ClosedPipe        # there is nowhere to put a proof
    tracker = Tracker(Writer(status_folder(status_dir), mode=mode, warn=lambda text: say(f"cuzk: warning: {text}")))
    run = _Run(given, tracker)
    shown = Progress(progress)
    tracker.start()
    try:
        results = apart(run.work, lambda: shown.update(tracker.snapshot()), "prove")
    except Stopped as stopped:
        shown.close()
        run.stop(stopped, quiet=json_errors)
        raise
    finally:
        shown.close()
        within(1.0, tracker.close)
    found = answer(results)
    if not json_errors:
        lines(found)
    if out != "-":
        put_json(found)
    elif found["ok"]:
        put(output.encode(results[0], format))
    return found["exit"]


def _check_options(given: dict) -> int:
    """The permissions of the status file. Raises CuzkError (USAGE) with every problem of the options."""
    problems: list[Problem] = []

    def attempt(function, *arguments):
        try:
            return function(*arguments)
        except CuzkError as error:
            problems.extend(error.problems)

    def refuse(option, expected, actual, hint=None, operation="read the options"):
        problems.append(Problem(Exit.USAGE, operation, option, expected, actual, hint))

    attempt(o.choice, given["format"], output.FORMATS, "--format")
    attempt(o.choice, given["progress"], MODES, "--progress")
    attempt(o.choice, given["device"], o.DEVICES, "--device")
    attempt(o.partition_list, given["partition"])
    mode = attempt(o.permissions, given["status_mode"], "--status-mode")
    sectors = given["sectors"] or []
    of_one = [name for name in ("vanilla", "comm_r_old", "comm_r_new", "comm_d_new", "out") if given[name] is not None]
    if len(sectors) > 1 and of_one:
        refuse(", ".join("--" + name.replace("_", "-") for name in of_one), "one sector", str(len(sectors)),
               "use --out-dir for several")
    if given["out"] and given["out_dir"]:
        refuse("-o, --out-dir", "one of them", "both")
    if given["out"] == "" or given["out_dir"] == "":
        refuse("-o, --out-dir", "a name", "an empty one")
    if given["no_gpu"] and given["device"] == "cuda":
        refuse("--no-gpu, --device", "one of them", "both")
    if not sectors and given["vanilla"] is None:
        refuse(None, "a sector, or --vanilla", "neither", operation="read the arguments")
    if problems:
        raise CuzkError(*problems)
    return mode


def vanilla_source(option: str | None) -> str | bytes | None:
    """--vanilla as the prover takes it; standard input is read here, once. Raises CuzkError (INPUT)."""
    return read("-") if option == "-" else option


class _Run:
    """One call of the prover and the files of its results; `stop` may be called from another thread than `work`."""

    def __init__(self, given: dict, tracker: Tracker):
        self._given, self._tracker = given, tracker
        self._names = [Path(sector.rstrip("/")).name for sector in given["sectors"] or []] or [None]
        self._requests: list = []
        self._paths: list[Path | None] = []
        self._finished: dict[int, dict] = {}
        self._engines: list = []
        self._writing = threading.Lock()

    def work(self) -> list[dict]:
        """One result for each sector, in order."""
        from ..prove import api

        given = self._given
        self._plan(api.Request)
        self._keep = given["insecure_randomness"] is None
        options = api.Options(params=given["params"], test_params=given["test_params"], workers=given["workers"],
                              insecure_randomness=given["insecure_randomness"],
                              device="cpu" if given["no_gpu"] else given["device"])
        return api.prove(self._requests, options, self._tracker, self._on_result, self._existing,
                         warn=lambda text: say(f"cuzk: warning: {text}"), on_engine=self._engines.append)

    def _plan(self, request_type) -> None:
        """Requests, and the file of each."""
        given = self._given
        facts = {name: given[name] for name in ("sector_size", "comm_r_old", "comm_r_new", "comm_d_new")}
        request = request_type(None, o.storage_folders(given["storage"]), vanilla_source(given["vanilla"]), **facts,
                               partitions=o.partition_list(given["partition"]))
        self._requests = [request._replace(sector=s) for s in given["sectors"] or []] or [request]
        if given["out_dir"]:
            folder, ending = Path(given["out_dir"]), output.FORMATS[given["format"]]
            self._paths = [folder / f"{r.label}.snap.{ending}" for r in self._requests]
            if len(set(self._paths)) < len(self._paths):
                raise fail(Exit.USAGE, "name the output files", "--out-dir", "sectors with different names",
                           "the same name twice")
            output.make_folder(folder)
        else:
            out = given["out"]
            self._paths = [Path(out) if out and out != "-" else None] * len(self._requests)

    def _existing(self, i: int, prepared, verifies) -> bytes | None:
        path = self._paths[i]
        return None if path is None else output.existing(path, self._given["force"], self._keep, verifies)

    def _on_result(self, i: int, result: dict) -> None:
        path = self._paths[i]
        if path is not None and result["ok"]:
            result["file"] = str(path)
            try:
                if not result["reused"]:
                    with self._writing:
                        output.write(path, output.encode(result, self._given["format"]))
            except CuzkError as error:
                result.update(ok=False, exit=int(error.exit), file=None, errors=[p.as_dict() for p in error.problems])
        self._finished[i] = result

    def stop(self, stopped: Stopped, quiet: bool) -> None:
        """A signal came: stop the workers, finish the file being written, write a last status, say what is lost.

        Bounded in time; device work in flight is abandoned, and the process must end after this.
        """
        problem = Problem(Exit(stopped.exit), f"stopped by {stopped.name}", actual="its proof was not finished")
        results = [self._finished.get(i) or {
            "kind": "snap", "sector": name, "ok": False, "exit": stopped.exit, "proof": None, "verified": False,
            "errors": [problem.as_dict()], "warnings": []} for i, name in enumerate(self._names)]
        unfinished = sum(not r["ok"] for r in results)
        say(f"cuzk: stopped by {stopped.name}, {unfinished} of {len(results)} proofs not finished")

        def end_jobs() -> None:
            for job in self._tracker.snapshot()["pipelines"]:
                if not job["finished"]:
                    self._tracker.job_finished(job["job_id"], False, f"stopped by {stopped.name}", stopped.name,
                                               stopped.exit)

        for step in (end_jobs, lambda: [engine.close() for engine in self._engines], self._writing.acquire,
                     discard_unfinished):
            within(1.0, step)
        if self._given["out"] != "-":
            found = {**answer(results), "ok": False, "exit": stopped.exit}
            within(0.5, lambda: _try_put(found))


def _try_put(found: dict) -> None:
    try:
        put_json(found)
    except (ClosedPipe, CuzkError):
        pass
