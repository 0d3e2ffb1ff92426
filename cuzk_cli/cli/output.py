"""Proof files: formats, names, what happens to files that exist, and writes that are whole or not at all."""
from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Callable

from ..errors import CuzkError, Exit, fail
from ..params.atomic import replacing
from ..protocol.table import PROOF_BYTES

FORMATS = {"json": "json", "raw": "bin", "hex": "hex", "base64": "b64"}     # format -> ending
LARGEST = 16 << 20              # bytes of a file that may hold a proof
_HEX = frozenset(b"0123456789abcdefABCDEF")


def encode(result: dict, format: str) -> bytes:
    """A result's proof in a format; json is the whole result."""
    proof = bytes.fromhex(result["proof"])
    if format == "raw":
        return proof
    if format == "hex":
        return proof.hex().encode() + b"\n"
    if format == "base64":
        return base64.b64encode(proof) + b"\n"
    return json.dumps(result, allow_nan=False).encode() + b"\n"


def decode(data: bytes, path) -> bytes:
    """A proof in any of our formats: JSON (a result, or our whole report with one), hex, base64 or raw.

    Hex and base64 may be wrapped; the length of the proof is not checked. Raises CuzkError (INPUT).
    """
    def bad(actual: str) -> CuzkError:
        return fail(Exit.INPUT, "parse the proof", path, "raw bytes, hex, base64 or a JSON result", actual)

    if not data.isascii():      # a compressed point begins with a set bit
        if len(data) % PROOF_BYTES == 0:
            return data
        raise bad(f"{len(data)} bytes, no multiple of {PROOF_BYTES}")
    text = b"".join(data.split())
    if not text:
        raise bad("nothing")
    if text[:1] == b"{":
        text = b"".join(_of_json(data, bad).split())
    try:
        if len(text) % 2 == 0 and _HEX.issuperset(text):
            return bytes.fromhex(text.decode())
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise bad(f"{len(data)} bytes that are none of these") from None


def _of_json(data: bytes, bad: Callable[[str], CuzkError]) -> bytes:
    """The proof's text in a result, or in a report of one result."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad(f"JSON that cannot be read: {error}"[:200]) from None
    results = value.get("results")
    if isinstance(results, list):
        if len(results) != 1 or not isinstance(results[0], dict):
            raise bad(f"a report of {len(results)} results")
        value = results[0]
    if not isinstance(value.get("proof"), str) or not value["proof"].isascii():
        raise bad("JSON without a proof")
    return value["proof"].encode()


def unwritable(path, error: OSError | ValueError) -> CuzkError:
    return fail(Exit.OUTPUT, "write", path, None, getattr(error, "strerror", None) or error)


def write(path: Path, data: bytes, replace: bool) -> None:
    """Write a file whole; replace: False where nothing may be there. Raises CuzkError (OUTPUT), leaving nothing behind."""
    with replacing(path, replace or path.is_symlink()) as file:        # a link that leads nowhere is replaced
        file.write(data)


def check_writable(path: Path) -> None:
    """Fail before long work where `path` could not be written. Raises CuzkError (OUTPUT)."""
    try:
        with tempfile.TemporaryFile(prefix=".cuzk-", dir=path.parent):
            pass
        os.stat(path)           # is the name one?
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            raise unwritable(path, error) from None
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None


def make_folder(path: Path) -> None:
    """The folder of --out-dir, made where it is missing. Raises CuzkError (OUTPUT)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail(Exit.OUTPUT, "make the folder", path, None, error.strerror) from None


def existing(path: Path, force: bool, keep: bool, verifies: Callable[[bytes], bool]) -> bytes | None:
    """What to do about a file at `path`: its proof where it verifies and `keep` allows it, None for a new one.

    keep is False with fixed randomness, whose bytes are what is asked for. What is no plain file (a folder, a device,
    a pipe) is never replaced. Raises CuzkError (OUTPUT) where something stands in the way, or nothing can be written.
    """
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = None             # also a link that leads nowhere: a rename replaces it
    except (OSError, ValueError) as error:
        raise fail(Exit.OUTPUT, "write", path, None, getattr(error, "strerror", None) or error) from None
    if kind is not None and not stat.S_ISREG(kind):
        what = "a folder" if stat.S_ISDIR(kind) else "no plain file"
        raise fail(Exit.OUTPUT, "write", path, "a file", what, "-o - writes to standard output")
    if kind is None or force:
        check_writable(path)
        return None
    refusal = fail(Exit.OUTPUT, "keep the existing file", path, "a proof that verifies for the same public inputs",
                   "something else" if keep else "a proof that fixed randomness must not be mixed with",
                   "--force replaces it")
    if not keep:
        raise refusal
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        proof = decode(data, path)
    except (OSError, CuzkError):
        raise refusal from None
    if len(data) > LARGEST or not verifies(proof):
        raise refusal
    return proof
