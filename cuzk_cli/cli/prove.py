"""`cuzk prove snap`."""
from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..errors import CuzkError, Exit, fail
from ..status import Tracker, Writer, status_folder
from . import options as o
from . import output
from .main import command, groups, internal_error
from .progress import MODES, Progress
from .streams import put, put_json, report, say

SCHEMA_VERSION = 1


class _Signals:
    """The first SIGINT or SIGTERM asks for a stop, the second ends the process at once."""

    def __init__(self):
        self.received: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number, frame) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number


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
    out: Annotated[Optional[str], typer.Option("-o", "--out", help="File of the proof; - puts it alone on standard output.")] = None,
    out_dir: Annotated[Optional[str], typer.Option(help="Folder of the proofs, <sector>.snap.<ending>.")] = None,
    format: Annotated[str, typer.Option("--format", help="Of the file: json, raw, hex or base64.")] = "json",
    force: Annotated[bool, typer.Option(help="Replace files that exist.")] = False,
    device: o.Device = "auto",
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="The same as --device cpu.")] = False,
    workers: Annotated[Optional[int], typer.Option(min=1, max=256, help="Synthesis processes.")] = None,
    progress: Annotated[str, typer.Option(help="auto, plain, json or none; on standard error.")] = "auto",
    json_errors: Annotated[bool, typer.Option(help="Problems as objects in the result only, not as lines.")] = False,
    status_dir: o.StatusDir = None,
    status_mode: Annotated[str, typer.Option(help="Permissions of the status file.")] = "0600",
) -> int:
    """Prove SnapDeals sector updates. Standard output is one JSON object; every proof is verified before it is written."""
    try:
        requests, paths, arguments = _plan(locals())
    except CuzkError as error:
        if out != "-":
            put_json({"schema_version": SCHEMA_VERSION, "ok": False, "exit": int(error.exit), "results": [],
                      "errors": [p.as_dict() for p in error.problems]})
        if not json_errors:
            report(error)
        return error.exit
    return _prove(requests, paths, arguments, out == "-", format, force, progress, json_errors, status_dir,
                  int(status_mode, 8))


def _plan(given: dict):
    """Requests, the file of each (None for none) and the prover's options. Raises CuzkError (USAGE, INPUT)."""
    from ..prove.snap import Request, read_source

    o.choice(given["format"], output.FORMATS, "--format")
    o.choice(given["progress"], MODES, "--progress")
    o.choice(given["device"], ("auto", "cpu", "cuda"), "--device")
    sectors, vanilla = list(given["sectors"] or []), given["vanilla"]
    facts = {name: given[name] for name in ("sector_size", "comm_r_old", "comm_r_new", "comm_d_new")}
    single = [name for name in ("comm_r_old", "comm_r_new", "comm_d_new") if given[name] is not None]
    single += ["vanilla"] if vanilla is not None else []
    if len(sectors) > 1 and (single or given["out"]):
        options = ["--" + name.replace("_", "-") for name in single] + (["-o"] if given["out"] else [])
        raise fail(Exit.USAGE, "read the options", ", ".join(options), "one sector", f"{len(sectors)}", "use --out-dir for several")
    if given["out"] and given["out_dir"]:
        raise fail(Exit.USAGE, "read the options", "-o, --out-dir", "one of them", "both")
    if not sectors and vanilla is None:
        raise fail(Exit.USAGE, "read the arguments", None, "a sector, or --vanilla", "neither")
    try:
        int(given["status_mode"], 8)
    except ValueError:
        raise fail(Exit.USAGE, "read the option", "--status-mode", "an octal number", repr(given["status_mode"])) from None
    if vanilla == "-":
        vanilla = read_source("-")
    request = Request(None, o.storage_folders(given["storage"]), vanilla, **facts, partitions=o.partition_list(given["partition"]))
    requests = [request._replace(sector=s) for s in sectors] or [request]
    if given["out"] and given["out"] != "-":
        paths = [Path(given["out"])]
    elif given["out_dir"]:
        paths = [Path(given["out_dir"]) / f"{r.label}.snap.{output.FORMATS[given['format']]}" for r in requests]
        if len(set(paths)) < len(paths):
            raise fail(Exit.USAGE, "name the output files", "--out-dir", "sectors with different names", "the same name twice")
    else:
        paths = [None] * len(requests)
    arguments = dict(params=given["params"], test_params=given["test_params"], workers=given["workers"],
                     insecure_randomness=given["insecure_randomness"], device="cpu" if given["no_gpu"] else given["device"])
    return requests, paths, arguments


def _prove(requests, paths, arguments, alone, format, force, progress, json_errors, status_dir, status_mode) -> int:
    from ..prove import api

    signals, engines, found = _Signals(), [], {}
    tracker = Tracker(Writer(status_folder(status_dir), mode=status_mode, warn=lambda text: say(f"cuzk: warning: {text}")))
    tracker.start()
    prover = api.Options(**arguments)

    def existing(i, prepared, verifies):
        if paths[i] is None:
            return None
        return output.existing(paths[i], force, prover.insecure_randomness is None, verifies)

    def on_result(i, result):
        if paths[i] is not None and result["ok"] and not result["reused"]:
            try:
                output.write(paths[i], output.encode(result, format))
            except CuzkError as error:
                result.update(ok=False, exit=int(error.exit), errors=[p.as_dict() for p in error.problems])
        if paths[i] is not None and result["ok"]:
            result["file"] = str(paths[i])

    def work():
        try:
            found["results"] = api.prove(requests, prover, tracker, on_result, existing,
                                         warn=lambda text: say(f"cuzk: warning: {text}"), on_engine=engines.append)
        except BaseException as error:      # carried to the main thread, which reports it
            found["error"] = error

    thread = threading.Thread(target=work, name="prove", daemon=True)
    thread.start()
    shown = Progress(progress)
    while thread.is_alive() and signals.received is None:
        thread.join(0.1)
        shown.update(tracker.snapshot())
    shown.close()
    if signals.received is not None:
        _stop(signals.received, engines, tracker)
    tracker.close()
    if "error" in found:
        if isinstance(found["error"], CuzkError):
            raise found["error"]
        internal_error(found["error"])
        return Exit.INTERNAL
    return _show(found["results"], alone, format, json_errors)


def _show(results: list[dict], alone: bool, format: str, json_errors: bool) -> int:
    """Problems on standard error, the answer on standard output; the exit code of the first result that failed."""
    code = next((r["exit"] for r in results if not r["ok"]), 0)
    for result in results:
        if not result["ok"] and not json_errors:
            for problem in result["errors"]:
                say(f"cuzk: {problem['message']}")
    if alone:
        if code == 0:
            put(output.encode(results[0], format))
    else:
        put_json({"schema_version": SCHEMA_VERSION, "ok": code == 0, "exit": code, "results": results})
    return code


def _stop(number: int, engines, tracker) -> None:
    """A signal came: stop the workers, write a last status, and leave; device work in flight is abandoned."""
    say(f"cuzk: stopped by {signal.Signals(number).name}; unfinished proofs are lost")
    for engine in engines:
        engine.close()
    tracker.close()
    os._exit(128 + number)
