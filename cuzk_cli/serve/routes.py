"""What is shown where, and to whom: methods, hosts and the token are checked before anything is read.

/           the page: the same for everybody, it holds no data
/status     `cuzk status --json`: the keys of the engine that this project follows, and ours
/metrics    the same for Prometheus
/healthz    200 while the status is fresh or absent, 503 otherwise; the word itself as text
"""
from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import re
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Awaitable, Callable, NamedTuple

from ..status.prometheus import prometheus
from .http import SHOW_NOTHING, Refused, Request, Response
from .token import shows

METHODS = ("GET", "HEAD")
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]\s]+))(?::[0-9]{1,5})?")


class Shown(NamedTuple):
    """One reading of the status, in the forms that are asked for."""

    status: bytes
    metrics: bytes
    state: str

    @classmethod
    def of(cls, answer: dict) -> Shown:
        """answer: `schema.ANSWER`."""
        data = json.dumps(answer, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        return cls(data, prometheus(answer).encode(), answer["state"])


class Routes:
    """names: hosts by which the server may be asked for, beside IP addresses and localhost. token None: nobody needs one.
    """

    def __init__(self, read: Callable[[], Awaitable[Shown]], names: tuple[str, ...], token: str | None):
        self._read, self._token = read, token
        self._names = {"localhost", *(_plain(name) for name in names)}

    async def answer(self, request: Request) -> Response:
        """Raises Refused."""
        if not self._known(request.headers.get("host")):
            raise Refused(HTTPStatus.FORBIDDEN, "expected an IP address, localhost or a name given by --allow-host as Host")
        if request.method not in METHODS:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET or HEAD", ("Allow", ", ".join(METHODS)))
        if request.path == "/":
            return page()
        show = _SHOW.get(request.path)
        if show is None:
            raise Refused(HTTPStatus.NOT_FOUND, "expected /, " + ", ".join(_SHOW))
        if self._token is not None and not shows(self._token, request.headers.get("authorization")):
            raise Refused(HTTPStatus.UNAUTHORIZED, "expected Authorization: Bearer TOKEN", ("WWW-Authenticate", "Bearer"))
        return show(await self._read())

    def _known(self, host: str | None) -> bool:
        """DNS rebinding: a foreign page reaches us under a name of its owner's choice, never under an address.

        Only a client that is no browser sends no Host at all.
        """
        if host is None:
            return True
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1] or match[2]
        try:
            ipaddress.ip_address(name)
            return True
        except ValueError:
            return _plain(name) in self._names


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _status(shown: Shown) -> Response:
    return Response(HTTPStatus.OK, shown.status, "application/json")


def _metrics(shown: Shown) -> Response:
    return Response(HTTPStatus.OK, shown.metrics, "text/plain; version=0.0.4; charset=utf-8")


def _health(shown: Shown) -> Response:
    well = shown.state in ("fresh", "absent")
    return Response(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, shown.state.encode() + b"\n")


_SHOW = {"/status": _status, "/metrics": _metrics, "/healthz": _health}


@lru_cache(maxsize=1)
def page() -> Response:
    """One file; only its own script and style may run, and only this server is asked for anything."""
    data = (files(__package__) / "page.html").read_bytes()

    def hashes(tag: bytes) -> str:
        inline = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), data, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in inline)

    policy = (f"{SHOW_NOTHING}; script-src {hashes(b'script')}; style-src {hashes(b'style')}; img-src data:; "
              "connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'")
    return Response(HTTPStatus.OK, data, "text/html; charset=utf-8", (("Content-Security-Policy", policy),))
