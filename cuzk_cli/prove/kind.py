"""What a proof kind gives the prover: a request, and what becomes of it once its input is read and checked.

`snap` and its siblings each have a Request and a Prepared of these shapes; everything else in `prove` knows only these.
"""
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np

from ..protocol.table import Size
from ..sectors.trees import Hash


class Prepared(Protocol):
    """Input that is read; checked, unless it was asked to be taken as it is."""

    kind: str                   # "snap"
    size: Size
    miner: int | None
    number: int | None          # of the sector, where there is one
    partitions: list[int]       # those asked for, ascending
    warnings: list[str]

    def witness(self, partition: int):
        """What the circuit of this kind takes; it can be pickled."""

    def public_inputs(self, partition: int) -> np.ndarray:
        """Words uint64[n, 4] in the circuit's order, without ONE."""

    def facts(self) -> dict:
        """What a result says of its input, as plain values."""

    def vanilla(self) -> list[bytes]:
        """Bincode of the vanilla proofs, one entry for each that the circuit's partitions are made of."""

    def vanilla_facts(self) -> dict:
        """The same as plain values, to stand beside `facts`."""

    def identity(self) -> bytes:
        """Equal for two that have the same proof: public facts and partitions."""


class Request(Protocol):
    """What was asked for."""

    kind: str

    @property
    def label(self) -> str:
        """What results and files are named after."""

    def subject(self) -> dict:
        """The ids that the result of a failure carries."""

    def files(self) -> list[Path]:
        """Files and folders of sectors that it would read; not the vanilla proofs. Raises CuzkError (INPUT, USAGE)."""

    def prepare(self, hash: Hash = ..., check: bool = True) -> Prepared:
        """Read and check input and vanilla proofs, or make these. Raises CuzkError (INPUT, USAGE)."""

    def public(self, hash: Hash = ...) -> Prepared:
        """The public facts alone, for verification. Raises CuzkError (INPUT, USAGE)."""


def network_takes(facts: dict, accepts: bool | None) -> bool | None:
    """Whether the network takes these proofs, by what is known of their parameters; None for unknown.

    Facts with `aggregated` false are of proofs that it takes as an aggregate only.
    """
    return False if facts.get("aggregated") is False else accepts


def plain_number(value: int | None):
    """For a result: JSON numbers above 2^53 lose digits in some readers."""
    return str(value) if value is not None and value >= 1 << 53 else value


def job_id(prepared: Prepared) -> str:
    """`<kind>-<miner>-<sector>-<digest12>`, x for what is not known."""
    x = lambda value: "x" if value is None else value
    digest = hashlib.sha256(prepared.identity()).hexdigest()
    return f"{prepared.kind}-{x(prepared.miner)}-{x(prepared.number)}-{digest[:12]}"
