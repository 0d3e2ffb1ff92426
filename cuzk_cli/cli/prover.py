"""Options of every command that has a prover in its own process."""
from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from . import options as o


@dataclass(frozen=True)
class ProverOptions:
    """How to prove, and where the status is."""

    params: o.Params = None
    test_params: o.TestParams = False
    device: o.Device = "auto"
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="The same as --device cpu.")] = False
    workers: Annotated[Optional[int], typer.Option(min=1, max=256, help="Synthesis processes.")] = None
    memory_budget: o.MemoryBudget = None
    no_resume: Annotated[bool, typer.Option(
        "--no-resume", help="Prove partitions again that a stopped call had finished.")] = False
    monolithic: Annotated[bool, typer.Option(
        "--monolithic", help="Hand all partitions of a proof to a device at once.")] = False
    on_device_error: Annotated[str, typer.Option(
        help="retry (once, on the same device), fail, or cpu (retry, then go on there).")] = "retry"
    status_dir: o.StatusDir = None
    status_mode: Annotated[str, typer.Option(help="Permissions of the status file.")] = "0600"
    serve: Annotated[Optional[str], typer.Option(
        "--serve", metavar="ADDRESS", help="Show the status over HTTP meanwhile, as cuzk serve does.")] = None
    token_file: o.TokenFile = None

    def check(self, problems: o.Problems) -> None:
        """Give `problems` what is wrong."""
        problems.attempt(o.device_name, self.device)
        problems.attempt(o.choice, self.on_device_error, o.ON_DEVICE_ERROR, "--on-device-error")
        problems.attempt(o.size_in_bytes, self.memory_budget, "--memory-budget")
        problems.attempt(o.permissions, self.status_mode, "--status-mode")
        if self.no_gpu and self.device.startswith("cuda"):
            problems.refuse("--no-gpu, --device", "one of them", "both")
        if self.token_file is not None and self.serve is None:
            problems.refuse("--token-file", "--serve beside it", "none")

    def serving(self):
        """A context in which the status is served, where that was asked for. Raises CuzkError (USAGE)."""
        from .serve import begin

        return nullcontext() if self.serve is None else begin(self.serve, self.token_file, self.status_dir)

    @property
    def mode(self) -> int:
        """Permissions of the status file."""
        return o.permissions(self.status_mode, "--status-mode")

    def of_prover(self, **more):
        """The prover's Options; `more` are further ones."""
        from ..prove.api import Options

        return Options(params=self.params, test_params=self.test_params, workers=self.workers,
                       device="cpu" if self.no_gpu else self.device,
                       memory_budget=o.size_in_bytes(self.memory_budget, "--memory-budget"),
                       resume=not self.no_resume, monolithic=self.monolithic, on_device_error=self.on_device_error,
                       **more)
