"""Options that several commands share."""
from __future__ import annotations

import os
from typing import Annotated, List, Optional

import typer

from ..errors import Exit, fail

Sectors = Annotated[Optional[List[str]], typer.Argument(metavar="[SECTOR]...", show_default=False, help="DIR/s-t0<miner>-<number>, where DIR holds sealed/ cache/ update/ update-cache/, "
                                                     "or the bare name with --storage.")]
SectorOption = Annotated[Optional[str], typer.Option("--sector", help="DIR/s-t0<miner>-<number>, or the bare name.")]
Storage = Annotated[Optional[List[str]], typer.Option("--storage", help="Storage folder, repeatable. [env: CUZK_STORAGE, separated by ':']")]
Vanilla = Annotated[Optional[str], typer.Option("--vanilla", help="Vanilla proofs: a snap-vproof.json or bincode, - for standard input.")]
SectorSize = Annotated[Optional[str], typer.Option("--sector-size", help="2KiB … 64GiB; needed where no sector is given.")]
CommROld = Annotated[Optional[str], typer.Option("--comm-r-old", help="Sealed commitment before the update: hex, base64 or CID.")]
CommRNew = Annotated[Optional[str], typer.Option("--comm-r-new", help="Sealed commitment after the update.")]
CommDNew = Annotated[Optional[str], typer.Option("--comm-d-new", help="Data commitment of the update.")]
Partition = Annotated[Optional[str], typer.Option("--partition", help="Indices, separated by commas; all by default.")]
Params = Annotated[Optional[str], typer.Option("--params", help="Folder of parameter files. [env: FIL_PROOFS_PARAMETER_CACHE]")]
TestParams = Annotated[bool, typer.Option("--test-params", help="Parameters from a published seed, made when absent. "
                                          "The network does not accept proofs under them.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
StatusDir = Annotated[Optional[str], typer.Option("--status-dir", help="Folder of status files. [env: CUZK_STATUS_DIR]")]


def storage_folders(option: list[str] | None) -> tuple:
    """--storage, else CUZK_STORAGE."""
    if option:
        return tuple(option)
    return tuple(p for p in os.environ.get("CUZK_STORAGE", "").split(os.pathsep) if p)


def partition_list(text: str | None) -> tuple | None:
    """"0,2" -> (0, 2). Raises CuzkError (USAGE)."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise fail(Exit.USAGE, "read the partitions", "--partition", "numbers separated by commas", repr(text)) from None


def choice(value: str, allowed, option: str) -> str:
    """Raises CuzkError (USAGE) for a value that is not allowed."""
    if value not in allowed:
        raise fail(Exit.USAGE, "read the option", option, " or ".join(allowed), repr(value))
    return value
