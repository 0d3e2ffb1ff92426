"""Requests and responses of HTTP/1.x, as far as a server needs them that only shows things (RFC 9110, RFC 9112).

A request is its head alone: one with a body is refused. Every response ends its connection.
"""
from __future__ import annotations

import re
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

FIELDS = 100                # header lines
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([\x21-\x7e]+) HTTP/([0-9])\.[0-9]")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_ONCE = ("host", "content-length", "transfer-encoding", "authorization")

_ALWAYS = {
    "Cache-Control": "no-store", "Connection": "close", "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
SHOW_NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class Request(NamedTuple):
    """`path` without its query; header names in small letters."""

    method: str
    path: str
    headers: dict[str, str]


class Response(NamedTuple):
    """`more`: headers beside those of every response."""

    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    more: tuple[tuple[str, str], ...] = ()

    def encode(self, head_only: bool) -> bytes:
        """head_only: what HEAD gets, the length of the body included."""
        fields = {"Date": formatdate(usegmt=True), "Content-Type": self.kind, "Content-Length": len(self.body), **_ALWAYS,
                  "Content-Security-Policy": SHOW_NOTHING, **dict(self.more)}
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}", *(f"{k}: {v}" for k, v in fields.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (b"" if head_only else self.body)


class Refused(Exception):
    """Carries the response."""

    def __init__(self, status: HTTPStatus, text: str, *more: tuple[str, str]):
        self.response = Response(status, text.encode() + b"\n", more=more)
        super().__init__(text)


def parse(head: bytes) -> Request:
    """head: up to and with the empty line. Raises Refused for what is malformed, or has a body."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "expected METHOD /path HTTP/1.1")
    method, target, major = match.groups()
    if major != "1":
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.0 or HTTP/1.1")
    if len(lines) > FIELDS:
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"expected at most {FIELDS} header lines")
    headers: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected header lines of the form Name: value")
        name = field[1].lower()
        if name in headers and name in _ONCE:
            raise Refused(HTTPStatus.BAD_REQUEST, f"expected {field[1]} once")
        headers[name] = field[2]
    if "transfer-encoding" in headers or headers.get("content-length", "0").strip("0"):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected a request without a body")
    if "host" not in headers and not first.endswith("HTTP/1.0"):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected a Host header")
    return Request(method, target.partition("?")[0], headers)
