"""Proof files: formats, names, what happens to files that exist, and writes that are whole or not at all."""
from __future__ import annotations

import base64
import binascii
import json
import os
import tempfile
from pathlib import Path
from typing import Callable

from ..errors import CuzkError, Exit, fail

FORMATS = {"json": "json", "raw": "bin", "hex": "hex", "base64": "b64"}     # format -> ending


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

    Raises CuzkError (INPUT).
    """
    def bad(actual: str) -> CuzkError:
        return fail(Exit.INPUT, "parse the proof", path, "raw bytes, hex, base64 or a JSON result", actual)

    text = data.strip()
    if not text:
        raise bad("nothing")
    if text[:1] == b"{":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            if len(data) % 192 == 0:
                return data
            raise bad(f"JSON that cannot be read: {error}"[:200]) from None
        results = value.get("results")
        if isinstance(results, list):
            if len(results) != 1 or not isinstance(results[0], dict):
                raise bad(f"a report of {len(results)} results")
            value = results[0]
        if not isinstance(value.get("proof"), str):
            raise bad("JSON without a proof")
        text = value["proof"].encode()
    elif len(data) % 192 == 0 and data[0] & 0x80:       # every compressed point begins with a set bit: no ASCII does
        return data
    try:
        if len(text) % 2 == 0 and set(text) <= set(b"0123456789abcdefABCDEF"):
            return bytes.fromhex(text.decode())
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise bad(f"{len(data)} bytes that are none of these") from None


def unwritable(path, error: OSError) -> CuzkError:
    return fail(Exit.OUTPUT, "write", path, None, error.strerror)


def write(path: Path, data: bytes) -> None:
    """Write a file whole: temporary file beside it, fsync, rename. Raises CuzkError (OUTPUT), leaving nothing behind."""
    temporary = None
    try:
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if temporary is not None:
            try:
                os.unlink(temporary)
            except OSError:
                pass
        raise unwritable(path, error) from None


def check_writable(path: Path) -> None:
    """Fail before long work where `path` could not be written. Raises CuzkError (OUTPUT)."""
    if path.is_dir():
        raise fail(Exit.OUTPUT, "write", path, "a file", "a folder")
    try:
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(fd)
        os.unlink(temporary)
    except OSError as error:
        raise unwritable(path, error) from None


def existing(path: Path, force: bool, keep: bool, verifies: Callable[[bytes], bool]) -> bytes | None:
    """What to do about a file at `path`: its proof where it verifies and `keep` allows it, None where a new one is to be written.

    Raises CuzkError (OUTPUT) where a file stands in the way, or none can be written.
    """
    if force or not os.path.lexists(path):
        check_writable(path)
        return None
    refusal = fail(Exit.OUTPUT, "keep the existing file", path, "a proof that verifies for the same public inputs",
                   "something else" if keep else "a proof that fixed randomness must not be mixed with",
                   "--force replaces it")
    if not keep or path.is_dir():
        raise refusal
    try:
        proof = decode(path.read_bytes(), path)
    except (OSError, CuzkError):
        raise refusal from None
    if not verifies(proof):
        raise refusal
    return proof
