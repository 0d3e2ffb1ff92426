"""Commitments as people write them: hex, base64 or CID; and as CIDs again (go-fil-commcid)."""
from __future__ import annotations

import base64

from ..errors import Exit, fail
from ..protocol.fr import R_ORDER

# CIDv1: version, codec and multihash as varints, length 32
_SEALED = bytes.fromhex("0182e20381e80220")         # fil-commitment-sealed, poseidon-bls12_381-a2-fc1
_UNSEALED = bytes.fromhex("0181e203922020")         # fil-commitment-unsealed, sha2-256-trunc254-padded
_PREFIX = {"comm_r": _SEALED, "comm_d": _UNSEALED}
_LABEL = {"comm_r": "CommR", "comm_d": "CommD"}


def to_cid(kind: str, commitment: bytes) -> str:
    """kind: "comm_r" or "comm_d"; 32 bytes -> "b…", base32 in lower case without padding."""
    return "b" + base64.b32encode(_PREFIX[kind] + commitment).decode().lower().rstrip("=")


def _from_cid(text: str, kind: str, option: str) -> bytes | None:
    """The commitment in a CID, None for text that is none."""
    body = text[1:].upper()
    try:
        data = base64.b32decode(body + "=" * (-len(body) % 8))
    except ValueError:      # characters that are no base32, or no ASCII
        return None
    for found, prefix in _PREFIX.items():
        if data.startswith(prefix) and len(data) == len(prefix) + 32:
            if found != kind:
                raise fail(Exit.USAGE, "read a commitment", option, f"a {_LABEL[kind]}",
                           f"{_LABEL[found]} given where {_LABEL[kind]} expected")
            return data[len(prefix):]
    return None


def decode_text(text: str) -> bytes | None:
    """Bytes written as hex or base64, None for text that is neither."""
    text = text.strip()
    body = text.removeprefix("0x")
    try:
        if len(body) % 2 == 0 and set(body) <= set("0123456789abcdefABCDEF"):
            return bytes.fromhex(body)
        urlsafe = "-" in text or "_" in text
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if urlsafe else None, validate=True)
    except ValueError:
        return None


def parse(text: str, kind: str, option: str) -> bytes:
    """32 bytes of a commitment given as 64 hex digits, base64 or CID. Raises CuzkError (USAGE), naming `option`."""
    text, data = text.strip(), None
    if text[:1] in ("b", "B") and len(text) > 52:
        data = _from_cid(text, kind, option)
    if data is None and len(text.removeprefix("0x")) == 64:
        try:
            data = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            data = None
    if data is None and len(text) in (43, 44):
        try:
            data = base64.b64decode(text.rstrip("=") + "=", altchars=b"-_" if "-" in text or "_" in text else None,
                                    validate=True)
        except ValueError:
            data = None
    if data is None or len(data) != 32:
        raise fail(Exit.USAGE, "read a commitment", option, f"32 bytes as hex, base64 or CID of a {_LABEL[kind]}",
                   f"{text[:100]!r}")
    if int.from_bytes(data, "little") >= R_ORDER:
        raise fail(Exit.USAGE, "read a commitment", option, "a field element",
                   "a number that is not below the group order")
    return data
