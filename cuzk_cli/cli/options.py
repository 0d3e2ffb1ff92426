"""Options that several commands share. The environment is read where a help text says so, never for --insecure-*."""
from __future__ import annotations

import inspect
import os
import re
import time
from dataclasses import MISSING, fields
from datetime import datetime, timezone
from functools import wraps
from typing import Annotated, Callable, List, Optional, get_type_hints

import typer

from ..errors import CuzkError, Exit, Problem, fail

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
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N[,M…], GPUs by number.")]
MemoryBudget = Annotated[Optional[str], typer.Option("--memory-budget", help="At most so much memory, as 8GiB.")]
StatusDir = Annotated[Optional[str], typer.Option(
    "--status-dir", help="Folder of status files. [env: CUZK_STATUS_DIR]")]
TokenFile = Annotated[Optional[str], typer.Option(
    "--token-file", help="File of the token that clients of the page must show as Authorization: Bearer TOKEN; "
                         "needed for an address that other machines reach.")]
Progress = Annotated[str, typer.Option("--progress", help="auto, plain, json or none; on standard error.")]
Deadline = Annotated[Optional[str], typer.Option(
    "--deadline", help="Give up then, exit 17: 30m, 90s, 2026-01-31T12:00:00Z or seconds since 1970.")]
JsonErrors = Annotated[bool, typer.Option(
    "--json-errors", help="Problems as objects in the result only, not as lines.")]

ON_DEVICE_ERROR = ("retry", "fail", "cpu")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


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


def moment(text: str | None, option: str) -> float | None:
    """"30m" from now, "2026-01-31T12:00:00Z" or seconds since the epoch -> seconds since the epoch. Raises CuzkError (USAGE).
    """
    if text is None:
        return None
    spans = re.fullmatch(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h|d))+", text)
    if spans:
        parts = re.findall(r"([0-9.]+)(ms|s|m|h|d)", text)
        return time.time() + sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if re.fullmatch(r"[0-9]{9,12}(?:\.[0-9]{1,9})?", text):
        return float(text)
    try:
        found = datetime.fromisoformat(text)
        return found.timestamp() if found.tzinfo else found.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        raise fail(Exit.USAGE, "read the time", option, "30m, 90s, 2026-01-31T12:00:00Z or seconds since 1970",
                   repr(text)) from None


def size_in_bytes(text: str | None, option: str) -> int | None:
    """"8GiB", "8g", "8589934592" -> bytes. Raises CuzkError (USAGE)."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise fail(Exit.USAGE, "read the size", option, "a size such as 8GiB", repr(text))
    return int(float(match[1]) * _BYTES[match[2]])


def choice(value: str, allowed, option: str) -> str:
    """Raises CuzkError (USAGE) for a value that is not allowed."""
    if value not in allowed:
        raise fail(Exit.USAGE, "read the option", option, " or ".join(allowed), repr(value))
    return value


def device_name(text: str) -> str:
    """Raises CuzkError (USAGE) for what is no --device."""
    numbers = text.removeprefix("cuda:").split(",")
    listed = text.startswith("cuda:") and all(re.fullmatch("[0-9]{1,4}", n) for n in numbers)
    if text not in ("auto", "cpu", "cuda") and not (listed and len(set(map(int, numbers))) == len(numbers)):
        raise fail(Exit.USAGE, "read the option", "--device", "auto, cpu, cuda or cuda:N[,M…], each number once", repr(text))
    return text


def permissions(text: str, option: str) -> int:
    """"0644" -> 0o644. Raises CuzkError (USAGE) for no octal number, and for a file that its owner cannot read."""
    mode = int(text, 8) if text.isascii() and text.isdigit() and not set(text) & {"8", "9"} else -1
    if not 0o400 <= mode <= 0o777 or not mode & 0o400:
        raise fail(Exit.USAGE, "read the permissions", option, "an octal number such as 0600 or 0644", repr(text))
    return mode


def taking(group: type, argument: str = "options") -> Callable:
    """Decorator of a command: the fields of a dataclass become options of it, its argument an object of them."""
    hints = get_type_hints(group, include_extras=True)
    shared = [inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[f.name],
                                default=inspect.Parameter.empty if f.default is MISSING else f.default)
              for f in fields(group)]

    def decorate(function):
        hints_of_own = get_type_hints(function, include_extras=True)
        own = [p.replace(annotation=hints_of_own[name], kind=inspect.Parameter.KEYWORD_ONLY)
               for name, p in inspect.signature(function).parameters.items() if name != argument]

        @wraps(function)
        def wrapper(**given):
            values = {f.name: given.pop(f.name) for f in fields(group)}
            return function(**{argument: group(**values)}, **given)

        wrapper.__signature__ = inspect.Signature([*own, *shared])
        wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
        return wrapper
    return decorate


class Problems:
    """What is wrong with the options, collected so that all of it is said at once."""

    def __init__(self):
        self.found: list[Problem] = []

    def attempt(self, function: Callable, *arguments):
        """What the function gives, None where it refuses."""
        try:
            return function(*arguments)
        except CuzkError as error:
            self.found += error.problems

    def refuse(self, option: str | None, expected: str, actual: str, hint: str | None = None,
               operation: str = "read the options") -> None:
        self.found.append(Problem(Exit.USAGE, operation, option, expected, actual, hint))

    def check(self) -> None:
        """Raises CuzkError (USAGE) where something was refused."""
        if self.found:
            raise CuzkError(*self.found)
