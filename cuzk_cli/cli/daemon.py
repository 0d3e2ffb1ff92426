"""`cuzk daemon`: a prover that stays."""
from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from ..params.atomic import discard_unfinished
from ..status import Tracker, Writer, status_folder
from . import options as o
from .apart import Stopped, apart, within
from .main import app, command
from .prover import ProverOptions
from .streams import say


@dataclass(frozen=True)
class DaemonOptions(ProverOptions):
    """Options of `cuzk daemon`."""

    listen: Annotated[Optional[str], typer.Option(
        "--listen", help="unix:PATH or HOST:PORT, where nobody is asked who they are. [env: CUZK_DAEMON]")] = None
    storage: o.Storage = None


@app.command()
@command
@o.taking(DaemonOptions)
def daemon(options: DaemonOptions) -> int:
    """Keep parameters, compiled functions and processes warm, and prove what comes by gRPC: from curio, and from submit.

    Jobs may name paths only in the --storage folders. SIGTERM and SIGINT end it within 5 s, with exit 0 where every job
    was finished; finished partitions are kept, and taken up when the same is submitted again.
    """
    from ..daemon import address
    from ..daemon.roots import Roots

    problems = o.Problems()
    options.check(problems)
    where = problems.attempt(address.parse, options.listen)
    roots = problems.attempt(Roots, o.storage_folders(options.storage))
    problems.check()
    with options.serving():
        return _daemon(options, where, roots)


def _daemon(options: DaemonOptions, where, roots) -> int:
    warn = lambda text: say(f"cuzk: warning: {text}")
    tracker = Tracker(Writer(status_folder(options.status_dir), mode=options.mode, warn=warn))
    served = _Served(options, where, roots, tracker, warn)
    tracker.start()
    try:
        apart(served.work, served.tick, "daemon")
    except Stopped as stopped:
        if served.stop(stopped):
            raise
    finally:
        within(0.5, tracker.close)
    return 0


class _Served:
    """One run of the daemon; `stop` may be called from another thread than `work`."""

    def __init__(self, options: DaemonOptions, where, roots, tracker: Tracker, warn):
        self._options, self._where, self._roots, self._tracker, self._warn = options, where, roots, tracker, warn
        self._daemon = self._prover = None
        self._stopped = self._said = False
        self._began = time.monotonic()

    def work(self) -> None:
        """Serve until it is stopped."""
        from ..daemon.control import Facts
        from ..daemon.server import Daemon
        from ..params.locate import parameter_folder
        from ..prove import memory

        given = self._options
        folder = parameter_folder(given.params, given.test_params)
        facts = Facts(os.path.realpath(folder.path), given.test_params, "cpu" if given.no_gpu else given.device)
        self._daemon = Daemon(self._where, self._make_prover, self._tracker, self._roots, facts, _devices,
                              lambda: memory.available()[0], lambda text: say(f"cuzk: {text}"))
        if not self._stopped:
            self._daemon.run()

    def _make_prover(self):
        from ..prove.prover import Prover

        self._prover = Prover(self._options.of_prover(wait=True), self._tracker, self._warn)
        return self._prover

    def tick(self) -> None:
        """Say once that it listens."""
        if not self._said and self._daemon is not None and self._daemon.started.is_set():
            self._said = True
            say(f"cuzk: listening on {self._daemon.address} after {time.monotonic() - self._began:.1f} s")
            if not self._where.local:
                self._warn(f"{self._daemon.address}: whoever reaches this address may submit, cancel and stop")

    def stop(self, stopped: Stopped) -> bool:
        """Answer those who wait, stop the workers, end the jobs in the status; were there unfinished ones?

        Bounded in time; device work in flight is abandoned, and the process must end after this.
        """
        self._stopped = True
        if self._daemon is not None:
            self._daemon.stop()
            within(2.5, self._daemon.ended.wait)
        lost = self._daemon.lost if self._daemon is not None else 0

        def end_jobs() -> None:
            for job in self._tracker.snapshot()["pipelines"]:
                if not job["finished"]:
                    self._tracker.job_finished(job["job_id"], False, f"stopped by {stopped.name}", stopped.name,
                                               stopped.exit)

        for step in (end_jobs, lambda: self._prover and self._prover.close(), discard_unfinished):
            within(0.6, step)
        say(f"cuzk: stopped by {stopped.name}, {lost} jobs not finished")
        return lost > 0


def _devices():
    from ..daemon.devices import devices      # imports JAX, which the prover has configured

    return devices()
