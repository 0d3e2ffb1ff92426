"""Proof files: formats, what happens to files that exist, whole files or none."""

import base64
import errno
import json
import os
import subprocess

import pytest
from hypothesis import given, strategies as st

from cuzk_cli.cli import output
from cuzk_cli.errors import CuzkError

from .common import answer_of, cuzk
from .fake_cuzk import Request, proof_of

SECTOR = "s-t01000-1"
PROOF = proof_of(Request(SECTOR))
FORMS = {"raw": PROOF, "hex": PROOF.hex().encode() + b"\n", "base64": base64.b64encode(PROOF) + b"\n"}


def litter(folder):
    return [p for p in folder.rglob("*") if p.name.endswith(".tmp")]


@pytest.mark.parametrize("format, ending", [("json", "json"), ("raw", "bin"), ("hex", "hex"), ("base64", "b64")])
def test_formats_of_a_folder(tmp_path, format, ending):
    done = cuzk(tmp_path, "prove", "snap", SECTOR, "--out-dir", "new/proofs", "--format", format)
    path = tmp_path / "new" / "proofs" / f"{SECTOR}.snap.{ending}"
    assert answer_of(done)["results"][0]["file"] == f"new/proofs/{SECTOR}.snap.{ending}"
    assert output.decode(path.read_bytes(), path) == PROOF and (format == "json" or path.read_bytes() == FORMS[format])
    assert os.listdir(path.parent) == [path.name] and path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("format", FORMS)
def test_alone_on_standard_output(tmp_path, format):
    done = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "-", "--format", format)
    assert done.stdout == FORMS[format] and done.returncode == 0


def test_alone_but_failed_is_nothing(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-10", "-o", "-")
    assert done.stdout == b"" and done.returncode == 10
    assert cuzk(tmp_path, "prove", "snap", "s-t01000-500", "-o", "-").stdout == b""


@given(st.binary(min_size=1, max_size=400), st.sampled_from(["hex", "base64", "json", "report", "wrapped", "upper"]))
def test_every_text_form_is_read(proof, form):
    encoded = base64.b64encode(proof).decode()
    result = {"proof": proof.hex()}
    text = {
        "hex": proof.hex(),
        "base64": encoded,
        "json": json.dumps(result),
        "report": json.dumps({"results": [result]}),
        "wrapped": "\n".join(encoded[i : i + 76] for i in range(0, len(encoded), 76)),
        "upper": proof.hex().upper() + "\r\n",
    }[form]
    if form in ("base64", "wrapped") and len(encoded) % 2 == 0 and set(encoded) <= set("0123456789abcdefABCDEF"):
        return  # such a text is hex, too
    assert output.decode(text.encode(), "p") == proof


@given(st.binary(max_size=500))
def test_any_bytes_are_a_proof_or_an_input_error(data):
    try:
        assert isinstance(output.decode(data, "p"), bytes)
    except CuzkError as error:
        assert error.exit == 10


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n",
        b"{",
        b"{}",
        b'{"proof": null}',
        b'{"proof": 1}',
        '{"proof": "ü"}'.encode(),
        b'{"results": []}',
        b'{"results": [1]}',
        b'{"results": [{"proof": "00"}, {"proof": "00"}]}',
        b"z! zz",
        b"abc",
        b"\xff" * 191,
        b"[" * 100000,
        b'{"proof":' + b"[" * 100000,
    ],
)
def test_no_proof(tmp_path, data):
    done = cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", "-", stdin=data)
    assert answer_of(done)["verified"] is False and done.returncode == 10 and len(done.stderr.splitlines()) == 1


def test_verify(tmp_path):
    for data in FORMS.values():
        assert answer_of(cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", "-", stdin=data))["verified"] is True
    (tmp_path / "p").write_bytes(FORMS["hex"])
    assert cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", "p").returncode == 0
    other = cuzk(tmp_path, "verify", "snap", "s-t01000-2", "--proof", "p")
    assert answer_of(other)["verified"] is False and other.returncode == 14
    assert cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", "-", stdin=PROOF * 2).returncode == 14
    for path in ("none", ".", "p/q"):
        assert answer_of(cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", path))["exit"] == 10


def test_endless_input_is_bounded(tmp_path):
    done = cuzk(tmp_path, "verify", "snap", SECTOR, "--proof", "/dev/zero")
    assert answer_of(done)["exit"] == 10 and b"more" in done.stderr


def test_an_existing_proof_is_kept(tmp_path):
    first = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "p")
    before = (tmp_path / "p").stat()
    again = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "p")
    assert answer_of(first)["results"][0]["reused"] is False and answer_of(again)["results"][0]["reused"] is True
    assert (tmp_path / "p").stat().st_mtime_ns == before.st_mtime_ns and (tmp_path / "p").stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"", b"notes", FORMS["hex"][:-3], proof_of(Request("s-t01000-2"))])
def test_anything_else_needs_force(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    refused = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "p")
    assert (
        answer_of(refused)["exit"] == 18 and b"--force" in refused.stderr and (tmp_path / "p").read_bytes() == content
    )
    assert cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "p", "--force", "--format", "raw").returncode == 0
    assert (tmp_path / "p").read_bytes() == PROOF and not litter(tmp_path)


def test_fixed_randomness_keeps_nothing(tmp_path):
    (tmp_path / "p").write_bytes(PROOF)
    arguments = ("prove", "snap", SECTOR, "-o", "p", "--insecure-randomness", "a")
    assert answer_of(cuzk(tmp_path, *arguments))["exit"] == 18
    assert answer_of(cuzk(tmp_path, *arguments, "--force"))["results"][0]["reused"] is False


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null", "folder", "pipe", "file/below", "none/below", "n" * 300])
def test_where_nothing_can_be_written(tmp_path, path):
    """The same for root, whom no permissions stop; --force replaces no device, pipe or folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for force in ([], ["--force"]):
        done = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", path, *force)
        assert answer_of(done)["exit"] == 18 and len(done.stderr.decode().splitlines()) == 1
    assert not litter(tmp_path) and os.path.exists("/dev/null") and not os.path.isfile("/dev/null")


def test_out_dir_below_a_plain_file(tmp_path):
    (tmp_path / "file").write_text("")
    done = cuzk(tmp_path, "prove", "snap", SECTOR, "--out-dir", "file/below")
    assert answer_of(done)["exit"] == 18 and b"Not a directory" in done.stderr


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch, failing):
    def refuse(*arguments):
        raise OSError(28, os.strerror(28))

    (tmp_path / "p").write_bytes(b"old")
    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(CuzkError) as caught:
        output.write(tmp_path / "p", b"new", True)
    assert caught.value.exit == 18 and "No space left" in str(caught.value)
    assert os.listdir(tmp_path) == ["p"] and (tmp_path / "p").read_bytes() == b"old"


def test_a_full_file_system(tmp_path):
    """A real one, where this user may mount it."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("no right to mount")
    try:
        with open(small / "fill", "wb") as fill:
            fill.write(bytes(4096))
        done = cuzk(tmp_path, "prove", "snap", SECTOR, "-o", "small/p")
        assert answer_of(done)["exit"] == 18 and os.listdir(small) == ["fill"]
        assert answer_of(done)["results"][0]["ok"] is False and b"No space left" in done.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_one_unwritable_file_stops_no_other(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s-t01000-1.snap.json").mkdir()
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-1", "s-t01000-2", "--out-dir", "d")
    assert [r["exit"] for r in answer_of(done)["results"]] == [18, 0] and done.returncode == 18
    assert (tmp_path / "d" / "s-t01000-2.snap.json").is_file()


def test_a_file_that_appeared_meanwhile_is_not_replaced(tmp_path):
    (tmp_path / "p").write_bytes(b"another's")
    with pytest.raises(CuzkError) as caught:
        output.write(tmp_path / "p", b"new", False)
    assert caught.value.exit == 18 and (tmp_path / "p").read_bytes() == b"another's"
    assert os.listdir(tmp_path) == ["p"]
    output.write(tmp_path / "q", b"new", False)
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    output.write(tmp_path / "nowhere", b"new", False)
    assert (tmp_path / "q").read_bytes() == (tmp_path / "nowhere").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["nowhere", "p", "q"]


@pytest.mark.parametrize("error", ["EPERM", "EOPNOTSUPP"])
def test_file_systems_without_links(tmp_path, monkeypatch, error):
    def refuse(*arguments):
        raise OSError(getattr(errno, error), "no links")

    monkeypatch.setattr(os, "link", refuse)
    output.write(tmp_path / "p", b"new", False)
    with pytest.raises(CuzkError):
        output.write(tmp_path / "p", b"newer", False)
    assert (tmp_path / "p").read_bytes() == b"new" and os.listdir(tmp_path) == ["p"]


@pytest.mark.parametrize("name", ["é" * 126, "x" * 255, "-", ".p", "a\nb"])
def test_odd_names(tmp_path, name):
    output.check_writable(tmp_path / name)
    output.write(tmp_path / name, b"new", False)
    assert (tmp_path / name).read_bytes() == b"new" and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128])
def test_names_that_are_too_long(tmp_path, name):
    for attempt in (output.check_writable, lambda path: output.write(path, b"new", True)):
        with pytest.raises(CuzkError) as caught:
            attempt(tmp_path / name)
        assert caught.value.exit == 18 and not os.listdir(tmp_path)
