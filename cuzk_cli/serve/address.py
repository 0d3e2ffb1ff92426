"""Where the server listens: HOST:PORT, [IPv6]:PORT or unix:PATH."""
from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import re
import socket
import stat
from typing import NamedTuple

from ..errors import CuzkError, Exit, fail

BACKLOG = 128
_FORM = "HOST:PORT, [IPv6]:PORT or unix:PATH"


class Listener(NamedTuple):
    """A socket that listens. `name`: as the user wrote it, with the port that was taken; `local`: nobody else's machine
    reaches it. `path`: of a unix socket."""

    socket: socket.socket
    name: str
    host: str | None
    local: bool
    path: str | None = None
    inode: int | None = None

    @property
    def url(self) -> str:
        return self.name if self.path else f"http://{self.name}/"

    def close(self) -> None:
        """A unix socket's file is removed, if it is still ours."""
        try:
            if self.path and os.lstat(self.path).st_ino == self.inode:
                os.unlink(self.path)
        except OSError:
            pass
        self.socket.close()


def listen(address: str, allowed: bool) -> Listener:
    """allowed: addresses that other machines reach are allowed too.

    Raises CuzkError (USAGE) for an address that is malformed, in use, not ours, or reachable without being allowed to.
    """
    if address.startswith("unix:"):
        return _unix(address.removeprefix("unix:"))
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]/\s]+)):([0-9]{1,5})", address)
    if match is None or int(match[3]) > 65535:
        raise _wrong(address, _FORM, "another form")
    host, port = match[1] or match[2], int(match[3])
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise _wrong(address, "a name or address of this machine", getattr(error, "strerror", None) or error) from None
    local = is_loopback(place[0])
    if not (local or allowed):
        raise _wrong(address, "a loopback address, or --token-file", "an address that other machines reach")
    try:
        both = family == socket.AF_INET6 and place[0] == "::" and socket.has_dualstack_ipv6()
        found = socket.create_server(place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise _refused(address, error) from None
    shown = f"[{host}]" if ":" in host else host
    return Listener(found, f"{shown}:{found.getsockname()[1]}", host, local)


def is_loopback(text: str) -> bool:
    """Of an IP address, with or without a scope; an IPv4 address written as IPv6 counts as itself."""
    found = ipaddress.ip_address(text.partition("%")[0])
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _unix(path: str) -> Listener:
    """Permissions 0600 from the first moment: nobody connects before listen(). What a killed server left is replaced."""
    name, path = f"unix:{path}", os.path.abspath(path) if path else path
    if not path or "\0" in path:
        raise _wrong(name, _FORM, "no path")
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)      # of two that begin at once, the second sees the first
            _remove_stale(path)
            found.bind(path)
            os.chmod(path, 0o600)
            found.listen(BACKLOG)
            inode = os.lstat(path).st_ino
        finally:
            os.close(folder)
    except OSError as error:
        found.close()
        raise _refused(name, error) from None
    except BaseException:
        found.close()
        raise
    return Listener(found, name, None, True, path, inode)


def _remove_stale(path: str) -> None:
    """Raises CuzkError (USAGE) for a socket on which somebody listens, and for a file of another kind."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise _wrong(f"unix:{path}", "a new name, or a socket that nobody uses", "a file of another kind")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            raise _refused(f"unix:{path}", error) from None
    raise _refused(f"unix:{path}", OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)))


def _wrong(address: str, expected: str, actual) -> CuzkError:
    return fail(Exit.USAGE, "read the address", address, expected, actual)


def _refused(address: str, error: OSError) -> CuzkError:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    hint = "another server listens there; give another address" if error.errno == errno.EADDRINUSE else None
    return fail(Exit.USAGE, "listen", address, None, reason.lower(), hint)
