"""Options that several commands share. The environment is read where a help text says so, never for --insecure-*."""
from __future__ import annotations

import os
from typing import Annotated, List, Optional

import typer

from ..errors import Exit, fail

Sectors = Annotated[Optional[List[str]], typer.Argument(
    metavar="[SECTOR]...", show_default=False,
    help="DIR/s-t0<miner>-<number>, where DIR holds sealed/ cache/ update/ update-cache/, "
         "or the bare name with --storage.")]
SectorOption = Annotated[Optional[str], typer.Option("--sector", help="DIR/s-t0<miner>-<number>, or the bare name.")]
Storage = Annotated[Optional[List[str]], typer.Option(
    "--storage", help="Storage folder, repeatable. [env: CUZK_STORAGE, separated by ':']")]
Vanilla = Annotated[Optional[str], typer.Option(
    "--vanilla", help="Vanilla proofs: a snap-vproof.json or bincode, - for standard input.")]
SectorSize = Annotated[Optional[str], typer.Option(
    "--sector-size", help="2KiB … 64GiB; needed where no sector is given.")]
CommROld = Annotated[Optional[str], typer.Option(
    "--comm-r-old", help="Sealed commitment before the update: hex, base64 or CID.")]
CommRNew = Annotated[Optional[str], typer.Option("--comm-r-new", help="Sealed commitment after the update.")]
CommDNew = Annotated[Optional[str], typer.Option("--comm-d-new", help="Data commitment of the update.")]
Partition = Annotated[Optional[str], typer.Option("--partition", help="Indices, separated by commas; all by default.")]
Params = Annotated[Optional[str], typer.Option(
    "--params", help="Folder of parameter files. [env: FIL_PROOFS_PARAMETER_CACHE]")]
TestParams = Annotated[bool, typer.Option(
    "--test-params", help="Parameters from a published seed, made when absent. "
                          "The network does not accept proofs under them.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
StatusDir = Annotated[Optional[str], typer.Option(
    "--status-dir", help="Folder of status files. [env: CUZK_STATUS_DIR]")]
Progress = Annotated[str, typer.Option("--progress", help="auto, plain, json or none; on standard error.")]
JsonErrors = Annotated[bool, typer.Option(
    "--json-errors", help="Problems as objects in the result only, not as lines.")]

DEVICES = ("auto", "cpu", "cuda")


def storage_folders(option: list[str] | None) -> tuple:
    """--storage, else CUZK_STORAGE."""
    if option:
        return tuple(option)
    return tuple(p for p in os.environ.get("CUZK_STORAGE", "").split(os.pathsep) if p)


def partition_list(text: str | None) -> tuple | None:
    """"0,2" -> (0, 2). Raises CuzkError (USAGE)."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise fail(Exit.USAGE, "read the partitions", "--partition", "numbers separated by commas", repr(text))
    return tuple(map(int, parts))


def choice(value: str, allowed, option: str) -> str:
    """Raises CuzkError (USAGE) for a value that is not allowed."""
    if value not in allowed:
        raise fail(Exit.USAGE, "read the option", option, " or ".join(allowed), repr(value))
    return value


def permissions(text: str, option: str) -> int:
    """"0644" -> 0o644. Raises CuzkError (USAGE) for no octal number, and for a file that its owner cannot read."""
    mode = int(text, 8) if text.isascii() and text.isdigit() and not set(text) & {"8", "9"} else -1
    if not 0o400 <= mode <= 0o777 or not mode & 0o400:
        raise fail(Exit.USAGE, "read the permissions", option, "an octal number such as 0600 or 0644", repr(text))
    return mode
