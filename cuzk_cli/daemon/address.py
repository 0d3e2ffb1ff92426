"""Where a daemon listens: a Unix socket or HOST:PORT, written as gRPC and curio write them."""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..errors import Exit, fail
from ..status.writer import status_folder

VARIABLE = "CUZK_DAEMON"
_LONGEST = 107      # bytes of a socket's path (sun_path without its zero)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|\[::1\]")


class Address(NamedTuple):
    """One of a socket's path and HOST:PORT."""

    path: Path | None
    host_port: str | None = None

    def __str__(self) -> str:
        """unix:PATH or HOST:PORT."""
        return self.host_port if self.path is None else f"unix:{self.path}"

    @property
    def target(self) -> str:
        """The same as gRPC takes it: a URI."""
        return self.host_port if self.path is None else f"unix:{quote(os.fsencode(self.path))}"

    @property
    def local(self) -> bool:
        """Is it out of reach for other machines?"""
        return self.path is not None or _LOOPBACK.match(self.host_port) is not None


def default_socket() -> Path:
    """In a folder of its own beside the status files, which others may be allowed to read."""
    return status_folder() / "daemon" / "cuzk.sock"


def parse(option: str | None = None, name: str = "--listen") -> Address:
    """option > CUZK_DAEMON > the default socket. Raises CuzkError (USAGE), naming the option."""
    text = option or os.environ.get(VARIABLE)
    if not text:
        text = f"unix:{default_socket()}"
    source = name if option else VARIABLE if os.environ.get(VARIABLE) else "the default socket"
    if text.startswith("unix:"):
        path = re.sub(r"^//(?=/)", "", text.removeprefix("unix:"))      # unix:///run/cuzk.sock is unix:/run/cuzk.sock
        if not path.strip("/") or path.startswith("//") or "\0" in path:
            raise fail(Exit.USAGE, "read the address", source, "unix:PATH", repr(text))
        whole = os.path.abspath(path)
        if len(os.fsencode(whole)) > _LONGEST:
            raise fail(Exit.USAGE, "read the address", source, f"a path of at most {_LONGEST} bytes", whole)
        return Address(Path(whole))
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise fail(Exit.USAGE, "read the address", source, "unix:PATH or HOST:PORT", repr(text[:200]))
    return Address(None, text)
