"""Addresses, and the folders that paths must lie in."""
import os

import pytest

from cuzk_cli.daemon import address
from cuzk_cli.daemon.roots import Roots
from cuzk_cli.errors import CuzkError, Exit


@pytest.fixture(autouse=True)
def nothing_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv(address.VARIABLE, raising=False)
    monkeypatch.setenv("CUZK_STATUS_DIR", str(tmp_path / "s"))


@pytest.mark.parametrize("text, expected", [
    ("unix:/run/curio/cuzk.sock", "unix:/run/curio/cuzk.sock"),
    ("unix:///run/curio/cuzk.sock", "unix:/run/curio/cuzk.sock"),       # as curio's configuration has it
    ("127.0.0.1:9820", "127.0.0.1:9820"), ("[::1]:9820", "[::1]:9820"), ("prover-1.lan:65535", "prover-1.lan:65535"),
])
def test_what_is_taken(text, expected):
    assert str(address.parse(text)) == expected


@pytest.mark.parametrize("text", ["unix:", "unix://", "unix://x/y", "9820", ":9820", "host", "host:", "host:65536",
                                  "host:x", "http://h:1", "unix:/" + "x" * 107, "unix:a\0b", "a b:1"])
def test_what_is_refused(text):
    with pytest.raises(CuzkError) as found:
        address.parse(text)
    assert found.value.exit == Exit.USAGE and found.value.problems[0].path == "--listen"


def test_option_before_environment_before_default(monkeypatch, tmp_path):
    assert address.parse().path == tmp_path / "s" / "daemon" / "cuzk.sock"
    monkeypatch.setenv(address.VARIABLE, "h:1")
    assert str(address.parse()) == "h:1" and str(address.parse("h:2")) == "h:2"
    monkeypatch.setenv(address.VARIABLE, "x")
    with pytest.raises(CuzkError) as found:
        address.parse()
    assert found.value.problems[0].path == address.VARIABLE


def test_who_can_reach_it():
    local = ["unix:/s", "localhost:1", "127.0.0.1:1", "127.8.8.8:1", "[::1]:1"]
    assert all(address.parse(text).local for text in local)
    assert not any(address.parse(text).local for text in ("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "host:1"))


# ---- roots
@pytest.fixture
def tree(tmp_path):
    for name in ("in/sub", "out", "in2"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("in/file", "in/sub/file", "out/file"):
        (tmp_path / name).write_text("")
    return tmp_path


def leaves(roots, *paths) -> list[str]:
    """The paths that are refused."""
    try:
        roots.check(*paths)
    except CuzkError as error:
        assert error.exit == Exit.INPUT
        return [problem.path for problem in error.problems]
    return []


def test_inside(tree):
    roots = Roots([str(tree / "in"), str(tree / "in2")])
    assert not leaves(roots, tree / "in", tree / "in/file", tree / "in/sub", tree / "in2", tree / "in/none/none")
    assert leaves(roots, tree / "out/file", tree / "in/file") == [str(tree / "out/file")]
    for path in ("out", "in3", "in/../out/file", "in/..", "/", "/etc/passwd", ""):
        assert leaves(roots, tree / path), path


def test_links(tree):
    """It is where a link leads that counts, and of a folder what lies in it."""
    roots = Roots([str(tree / "in")])
    (tree / "in/link").symlink_to(tree / "out/file")
    (tree / "out/back").symlink_to(tree / "in/file")
    (tree / "in/folder").symlink_to(tree / "out")
    (tree / "in/sub/inner").symlink_to("../../out/file")
    assert all(leaves(roots, tree / path) for path in ("in/link", "in/folder/file", "in/folder"))
    assert leaves(roots, tree / "in/sub") == [str(tree / "in/sub/inner")]
    assert not leaves(roots, tree / "out/back")
    (tree / "in/loop").symlink_to(tree / "in/loop")
    assert not leaves(roots, tree / "in/loop")          # it leads nowhere: opening it fails
    (tree / "root").symlink_to(tree / "in")
    assert not leaves(Roots([str(tree / "root")]), tree / "root/file", tree / "in/file")


def test_none(tree):
    assert leaves(Roots([]), tree / "in/file", tree / "in")
    with pytest.raises(CuzkError) as found:
        Roots([str(tree / "in"), str(tree / "nothing")])
    assert found.value.exit == Exit.USAGE
    assert leaves(Roots([str(tree)]), "a\0b") and leaves(Roots(["/"]), tree / "in/file") == []
    assert os.path.isabs(Roots(["."]).folders[0])
