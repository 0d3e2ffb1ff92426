"""The secret that clients show: `Authorization: Bearer TOKEN`.

A header and no cookie: a browser sends it only where the page's own script adds it, never because of another site's link.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat

from ..errors import CuzkError, Exit, fail

SHORTEST, LONGEST = 16, 512     # characters


def read_token(path: str | os.PathLike) -> str:
    """The one line of a file that only its owner (and group) can read.

    Raises CuzkError (USAGE) for a file that cannot be read, that others may read, or that holds no token.
    """
    form = f"one line of {SHORTEST} to {LONGEST} letters, digits and - . _ ~ + / ="
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(LONGEST + 3) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:      # ValueError: a null character in the name
        raise _wrong(path, "a readable file", getattr(error, "strerror", None) or error) from None
    if mode & 0o007:
        raise _wrong(path, "a file that others cannot read", f"permissions {stat.S_IMODE(mode):04o}", "chmod 600")
    match = re.fullmatch(rb"([A-Za-z0-9._~+/=-]{%d,%d})\r?\n?" % (SHORTEST, LONGEST), data)
    if match is None:
        raise _wrong(path, form, "something else", "openssl rand -hex 32")
    return match[1].decode()


def shows(token: str, authorization: str | None) -> bool:
    """Does a header's value carry the token? Takes the same time for every wrong one: digests are compared, whole."""
    scheme, _, given = (authorization or "").partition(" ")
    same = hmac.compare_digest(_digest(given.strip()), _digest(token))
    return same and scheme.lower() == "bearer"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("latin-1", "replace")).digest()


def _wrong(path, expected: str, actual, hint: str | None = None) -> CuzkError:
    return fail(Exit.USAGE, "read --token-file", path, expected, actual, hint)
