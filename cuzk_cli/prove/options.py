"""How to prove and verify: what does not belong to one request."""
from __future__ import annotations

import os
from dataclasses import dataclass

from ..params import locate
from ..protocol.table import Size


@dataclass(frozen=True)
class Options:
    """Of `api.prove`, `api.verify` and `Prover`."""

    params: str | None = None               # folder of parameter files
    test_params: bool = False
    insecure_randomness: str | None = None  # seed of r and s
    device: str = "auto"                    # auto, cpu, cuda or cuda:N[,M…]
    workers: int | None = None              # synthesis processes, None for one a core but one
    vk: str | None = None                   # verifying key file, for `verify`
    monolithic: bool = False                # the partitions of a job are one assignment
    resume: bool = True                     # take up finished partitions of a job that did not end
    wait: bool = False                      # for another process that proves the same job
    on_device_error: str = "retry"          # retry, fail or cpu
    memory_budget: int | None = None        # bytes, None for what the system gives

    @property
    def processes(self) -> int:
        """Synthesis processes."""
        if self.workers:
            return self.workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores - 1)

    def located(self, kind: str, size: Size) -> locate.Located:
        """The parameter files of a circuit. Raises CuzkError (USAGE, PARAMETERS)."""
        folder = locate.parameter_folder(self.params, self.test_params)
        return locate.locate(locate.Circuit.of(kind, size), folder)
