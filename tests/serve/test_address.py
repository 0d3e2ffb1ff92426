"""Where it listens, and what it refuses to listen on."""
import os
import socket
import stat
import threading

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.serve import read_token, start
from cuzk_cli.serve.address import is_loopback

from .common import TOKEN, ask, connect, serving


def refused(address, token=None):
    with pytest.raises(CuzkError) as caught:
        start(address, token, dict)
    assert caught.value.exit == Exit.USAGE and len(caught.value.problems) == 1
    line = caught.value.problems[0].line()
    assert "\n" not in line and "Errno" not in line
    return line


@pytest.mark.parametrize("address", [
    "", "9821", ":9821", "localhost", "localhost:", "localhost:x", "127.0.0.1:65536", "127.0.0.1:-1", "::1:9821", "[::1]",
    "http://127.0.0.1:9821", "127.0.0.1:9821/", "unix:", "unix:\0", "[zz]:1", "no-such-name.invalid:1", "a\n:1",
    "\u2603" * 70 + ":1", "unix:/no/such/folder/socket", "unix:/" + "x" * 120, "192.0.2.1:0"])
def test_addresses_that_cannot_be(address):
    assert refused(address, TOKEN)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_other_machines_need_a_token(address):
    assert "--token-file" in refused(address)


def test_all_addresses_with_a_token(folder):
    server = serving(folder, "0.0.0.0:0", TOKEN)
    assert ask(server).status == 401 and ask(server, Authorization=f"Bearer {TOKEN}").status == 200
    assert ask(server, host=socket.gethostname(), Authorization=f"Bearer {TOKEN}").status == 200
    server.close()


@pytest.mark.parametrize("text, local", [
    ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("fe80::1%lo", False),
    ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("::ffff:10.0.0.1", False)])
def test_loopback(text, local):
    assert is_loopback(text) == local


@pytest.mark.parametrize("address", ["localhost:0", "127.0.0.2:0", "[::1]:0"])
def test_loopback_addresses(folder, address):
    try:
        server = serving(folder, address)
    except CuzkError as error:
        pytest.skip(f"this machine has no such address: {error}")
    assert ask(server).status == 200 and server.url == f"http://{server.name}/"
    server.close()


def test_port_in_use(server):
    assert "address already in use" in refused(server.name)
    assert ask(server).status == 200


def test_closed_twice_and_free_again(folder):
    server = serving(folder)
    assert ask(server).status == 200
    idle = connect(server)
    server.close()
    server.close()
    server.wait()
    try:
        assert idle.recv(1) == b""
    except ConnectionResetError:
        pass
    again = serving(folder, server.name)
    assert ask(again).status == 200
    again.close()
    assert not [t for t in threading.enumerate() if t.name == "serve"]


# ---- unix sockets
def test_unix_socket_is_the_owners_alone(folder, tmp_path):
    before = os.umask(0)
    try:
        server = serving(folder, f"unix:{tmp_path}/s")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o600
    assert ask(server).status == 200 and server.url == server.name
    assert "in use" in refused(server.name) and ask(server).status == 200
    server.close()
    assert not (tmp_path / "s").exists()


def test_unix_socket_of_a_killed_server_is_replaced(folder, tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    server = serving(folder, f"unix:{tmp_path}/s")
    assert ask(server).status == 200
    server.close()


def test_unix_socket_never_replaces_a_file(tmp_path):
    (tmp_path / "s").write_text("mine")
    (tmp_path / "link").symlink_to("s")
    for name in ("s", "link"):
        assert "a file of another kind" in refused(f"unix:{tmp_path}/{name}")
    assert (tmp_path / "s").read_text() == "mine"


def test_unix_socket_that_is_anothers_by_now_stays(folder, tmp_path):
    first = serving(folder, f"unix:{tmp_path}/s")
    (tmp_path / "s").rename(tmp_path / "old")
    second = serving(folder, f"unix:{tmp_path}/s")
    first.close()
    assert ask(second).status == 200
    second.close()


# ---- the token's file
def token_file(folder, data: bytes, mode=0o600):
    path = folder / "token"
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("data", [TOKEN, TOKEN + "\n", TOKEN + "\r\n"])
def test_token_file(tmp_path, data):
    assert read_token(token_file(tmp_path, data.encode())) == TOKEN


@pytest.mark.parametrize("data", [b"", b"\n", b"short", b"x" * 513, b"a b" * 9, b"\xff" * 20, f"{TOKEN}\n\n".encode(),
                                  f"{TOKEN}\n{TOKEN}\n".encode(), b"\0" * 32])
def test_token_files_that_hold_none(tmp_path, data):
    with pytest.raises(CuzkError) as caught:
        read_token(token_file(tmp_path, data))
    assert caught.value.exit == Exit.USAGE and TOKEN not in str(caught.value)


def test_token_files_that_are_none(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", "\0", token_file(tmp_path, TOKEN.encode(), 0o644)):
        with pytest.raises(CuzkError) as caught:
            read_token(path)
        assert caught.value.exit == Exit.USAGE
