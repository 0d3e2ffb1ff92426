"""Where parameters are looked for, what is said when they are missing, and what the network thinks of them."""
from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.params import digests, marker
from cuzk_cli.params.format import read_verifying_key
from cuzk_cli.params.locate import Circuit, locate, network_accepts_key, parameter_folder
from cuzk_cli.params.marker import MARKER, read_marker, write_marker
from cuzk_cli.protocol.table import parse_size

PUBLISHED = hashlib.blake2b(b"real").hexdigest()[:32]
CIRCUIT = Circuit("snap", "2KiB", "v28-stem", PUBLISHED, "e" * 32)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def located(folder, circuit=CIRCUIT, **options):
    return locate(circuit, parameter_folder(folder, **options))


def test_order():
    environ = {"FIL_PROOFS_PARAMETER_CACHE": "/env"}
    assert parameter_folder("/opt", environ=environ) == (Path("/opt"), "--params")
    assert parameter_folder(environ=environ) == (Path("/env"), "FIL_PROOFS_PARAMETER_CACHE")
    for empty in ({}, {"FIL_PROOFS_PARAMETER_CACHE": ""}):
        assert parameter_folder(environ=empty) == (Path("/var/tmp/filecoin-proof-parameters"), "the default folder")


def test_test_parameters(cache):
    environ = {"FIL_PROOFS_PARAMETER_CACHE": "/env"}
    assert parameter_folder(test=True, environ=environ).path == cache / "cuzk" / "test-params"
    with pytest.raises(CuzkError) as caught:
        parameter_folder("/opt", test=True)
    assert caught.value.exit == Exit.USAGE


def test_missing(tmp_path):
    found = located(tmp_path / "none")
    with pytest.raises(CuzkError) as caught:
        found.require_params(655789464)
    text = str(caught.value)
    assert caught.value.exit == Exit.PARAMETERS
    for part in ("v28-stem.params", "655789464 bytes", PUBLISHED, f"no folder {tmp_path}/none", "--params",
                 f"FIL_PROOFS_PARAMETER_CACHE={tmp_path}/none lotus fetch-params 2KiB"):
        assert part in text
    with pytest.raises(CuzkError, match="v28-stem.vk.*" + "e" * 32):
        found.require_key()
    with pytest.raises(CuzkError, match="none.*--test-params, or cuzk params generate snap --sector-size 4KiB"):
        located(tmp_path, Circuit.of("snap", parse_size("4KiB"))).require_params()
    assert not (tmp_path / "none").exists()


def test_names_and_digests_of_the_network():
    circuit = Circuit.of("snap", parse_size("2KiB"))
    assert circuit.stem.startswith("v28-empty-sector-update-merkletree-poseidon_hasher-8-0-0-fb9e095b")
    assert circuit[3:] == ("311f92a3e75036ced01b1c0025f1fa0c", "eadad9784969890d30f2749708c79771")
    assert Circuit.of("snap", parse_size("16KiB"))[3:] == (None, None)


def test_present(tmp_path):
    found = located(tmp_path)
    found.params.write_bytes(b"real")
    assert found.require_params() == found.require_key() == tmp_path / "v28-stem.params"
    found.vk.write_bytes(b"key")
    assert found.require_key() == found.vk


def test_what_the_network_accepts(tmp_path):
    found = located(tmp_path)
    assert found.network_accepts is None
    found.params.write_bytes(b"real")
    assert found.network_accepts is None and found.digest is None       # nobody has looked
    digests.remember(found.params, digests.digest_file(found.params))
    assert found.digest == PUBLISHED and found.network_accepts is True
    assert located(tmp_path, CIRCUIT._replace(params_digest=None)).network_accepts is None
    found.params.write_bytes(b"fake")
    os.utime(found.params, (5, 5))
    assert found.network_accepts is None                                # another file than the one remembered
    digests.remember(found.params, digests.digest_file(found.params))
    assert found.network_accepts is False
    found.params.write_bytes(b"real")
    digests.remember(found.params, PUBLISHED)
    assert not found.warnings
    write_marker(tmp_path, "x")
    assert located(tmp_path).network_accepts is False                   # whatever the digest
    assert len(located(tmp_path).warnings) == 1 and MARKER in located(tmp_path).warnings[0]


def test_what_the_network_accepts_of_keys(tmp_path):
    path = next((Path(__file__).parents[2] / "fixtures" / "params").glob("v28-empty-sector-update-*.vk"))
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    digest = hashlib.blake2b(path.read_bytes()).hexdigest()[:32]
    snap = Circuit.of("snap", parse_size("2KiB"))
    for circuit, expected in ((snap, False), (snap._replace(vk_digest=digest), True), (snap._replace(vk_digest=None), None)):
        assert network_accepts_key(circuit, read_verifying_key(copy)) is expected
    write_marker(tmp_path, "x")
    assert network_accepts_key(snap._replace(vk_digest=digest), read_verifying_key(copy)) is False


def test_no_warning_for_what_was_asked_for(cache):
    folder = parameter_folder(test=True)
    folder.path.mkdir(parents=True)
    write_marker(folder.path, "cuzk")
    found = locate(CIRCUIT, folder)
    assert found.warnings == [] and found.network_accepts is False and found.marker.seed == "cuzk"


def test_remembered_digests(tmp_path, cache):
    path = tmp_path / "file"
    path.write_bytes(b"real" * 3_000_000)
    assert digests.digest_file(path) == hashlib.blake2b(path.read_bytes()).hexdigest()[:32]
    digests.remember(path, "d" * 32)
    (tmp_path / "link").symlink_to(path)
    assert digests.remembered(path) == digests.remembered(tmp_path / "link") == "d" * 32
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(path.stat().st_mtime_ns,) * 2)
    os.replace(copy, path)                  # same size and time, another inode
    assert digests.remembered(path) is None
    digests.remember(path, "d" * 32)
    for file in (cache / "cuzk" / "digests").iterdir():
        file.write_text("[")
    assert digests.remembered(path) is None and digests.remembered(tmp_path / "none") is None
    with pytest.raises(CuzkError) as caught:
        digests.digest_file(tmp_path / "none")
    assert caught.value.exit == Exit.PARAMETERS


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "plain").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "plain"))
    digests.remember(tmp_path / "plain", "d" * 32)
    assert digests.remembered(tmp_path / "plain") is None


def test_markers(tmp_path):
    assert read_marker(tmp_path) is None and read_marker(tmp_path / "none") is None
    write_marker(tmp_path, "s")
    assert read_marker(tmp_path).seed == "s"
    (tmp_path / MARKER).write_text("")
    assert read_marker(tmp_path) == marker.Marker(None)


def test_markers_that_are_no_files_mark_and_hold_nobody_up(tmp_path):
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / MARKER)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / MARKER).symlink_to(tmp_path / "none")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / MARKER).write_text("[" * 100000)
    for name in ("pipe", "link", "deep"):
        assert read_marker(tmp_path / name) == marker.Marker(None)


def test_a_digest_is_not_remembered_of_a_file_whose_times_were_set_back(tmp_path):
    path = tmp_path / "p.params"
    path.write_bytes(b"real")
    digests.remember(path, PUBLISHED)
    assert digests.remembered(path) == PUBLISHED
    times = os.stat(path)
    path.write_bytes(b"fake")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests.remembered(path) is None
