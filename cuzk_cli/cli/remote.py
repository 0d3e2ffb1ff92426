"""`cuzk prove --daemon`: let a running daemon prove, where it would do exactly what this process would."""
from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from .. import __version__
from ..errors import CuzkError, Exit, fail
from . import output
from .streams import say

MODES = ("auto", "never", "require")
EVERY = 1.0         # seconds of one question
_WAITING = 32       # jobs that are asked for at a time


def choose(options, requests: list, paths: list[Path | None]) -> "Remote | None":
    """Who proves: a daemon, or None for this process. options: ProveOptions; paths: the files of the proofs.

    `require` raises CuzkError where there is none (BUSY) or it would do something else (USAGE); `auto` says why not.
    """
    if options.daemon == "never":
        return None
    from ..daemon import address

    where, required = address.parse(None, "--daemon"), options.daemon == "require"
    if not required and (_own(options) or where.path is not None and not os.path.lexists(where.path)):
        return None
    from ..daemon.client import Client

    client = Client(where)
    try:
        why = _unfit(client, options, requests, paths)
        if why is None:
            return Remote(client)
    except CuzkError as error:
        if required:
            raise
        why = error.problems[0].actual
    client.close()
    if required:
        raise fail(Exit.USAGE, "use the daemon", str(where), "one that proves as this process would", why)
    say(f"cuzk: the daemon at {where} is not used: {why}")
    return None


def _own(options) -> list[str]:
    """Options of a prover in this process, which a daemon has its own of."""
    names = ("test_params", "insecure_randomness", "no_gpu", "workers", "memory_budget", "no_resume", "monolithic")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    given += ["--device"] * (options.device != "auto")
    return given + ["--on-device-error"] * (options.on_device_error != "retry")


def _unfit(client, options, requests: list, paths: list[Path | None]) -> str | None:
    """Why a daemon cannot do this; None where it can. Raises CuzkError where it does not answer."""
    from ..daemon.roots import Roots
    from ..params.locate import parameter_folder

    hello = client.hello()
    folder = os.path.realpath(parameter_folder(options.params, options.test_params).path)
    own = [name for name in _own(options) if name != "--test-params"]
    if hello.version != __version__:
        return f"its version is {hello.version}, ours {__version__}"
    if (hello.parameter_folder, hello.test_params) != (folder, options.test_params):
        return f"its parameters are in {hello.parameter_folder}, ours in {folder}"
    if hello.draining:
        return "it takes no new jobs"
    if own:
        return f"{', '.join(own)} cannot be told to it"
    kept = [str(path) for path in paths if path is not None and os.path.lexists(path)]
    if kept and not options.force:
        return f"{kept[0]} exists, and is compared here first (--force replaces it)"
    roots = Roots(hello.storage)
    for request in requests:
        try:
            roots.check(*request.files())
        except CuzkError as error:
            return f"{error.problems[0].path} is not in its storage folders ({', '.join(hello.storage) or 'none'})"
    return None


class Remote:
    """A daemon that proves for us."""

    def __init__(self, client):
        self._client = client
        self._ids: list[str] = []
        self._parts: dict[str, dict] = {}       # of the status, by job

    def prove(self, requests: list, paths: list[Path | None], deadline: float | None,
              on_result: Callable[[int, dict], None]) -> list[dict]:
        """One result each, in order; as api.prove."""
        from ..daemon.requests import to_job

        for path in paths:
            if path is not None:
                output.check_writable(path)
        say(f"cuzk: proved by the daemon at {self._client.address}")

        def one(i: int) -> dict:
            result = self._one(requests[i], *to_job(requests[i], here=True), deadline)
            on_result(i, result)
            return result

        with ThreadPoolExecutor(min(len(requests), _WAITING), "daemon") as threads:
            return list(threads.map(one, range(len(requests))))

    def _one(self, request, job: dict, vanilla: bytes, deadline: float | None) -> dict:
        try:
            id = self._client.submit(job, vanilla, deadline=deadline, leave=True)["job_id"]
            self._ids.append(id)
            for result, part in self._client.watch(id, EVERY):
                if part is not None:
                    self._parts[id] = part
        except CuzkError as error:
            return {"kind": request.kind, **request.subject(), "ok": False, "exit": int(error.exit),
                    "errors": [p.as_dict() for p in error.problems], "warnings": [], "proof": None, "verified": False}
        return {**result, "daemon": str(self._client.address)}

    def snapshot(self) -> dict:
        """What Progress shows."""
        parts = list(self._parts.values())
        return {key: [each for part in parts for each in part[key]] for key in ("pipelines", "gpu_workers")}

    def cancel(self, reason: str) -> None:
        """Whatever is not finished; it goes on for others who asked for it."""
        for id in list(self._ids):
            try:
                self._client.cancel(id, reason)
            except CuzkError:       # it is gone, or the daemon is
                continue
