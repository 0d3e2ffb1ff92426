"""Parameter files: layout against a file of the reference's shape, and everything that can be wrong with one."""
from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from py_arkworks_bls12381 import G1Point, G2Point

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.params import format as module
from cuzk_cli.params.format import VECTORS, Counts, ParameterFile, read_verifying_key
from cuzk_cli.params.generate import generate
from cuzk_cli.params.points import decode_g1, decode_g2, encode_g1, encode_g2, scalar
from cuzk_cli.params.trapdoor import Trapdoor

from .small import SLOW_FIXED_BASE, SmallCircuit, evaluate

ROOT = Path(__file__).parents[2]

FIXTURES = Path(__file__).parents[2] / "fixtures" / "params"
CIRCUIT = SmallCircuit(20, 2)
COUNTS = Counts.of(CIRCUIT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a parameter file."""
    made = generate(CIRCUIT, "v28-x", tmp_path_factory.mktemp("p"), "t", SLOW_FIXED_BASE, evaluate=evaluate)
    return made.params.read_bytes()


@pytest.fixture
def path(whole, tmp_path):
    path = tmp_path / "v28-x.params"
    path.write_bytes(whole)
    return path


def refused(call, *texts):
    with pytest.raises(CuzkError) as caught:
        call()
    assert caught.value.exit == Exit.PARAMETERS
    for text in texts:
        assert text in str(caught.value), str(caught.value)


# ---------------------------------------------------------------- points
def test_points_are_written_as_blst_writes_them():
    assert encode_g1(G1Point()).hex().startswith("17f1d3a73197d794")
    assert encode_g2(G2Point()).hex().startswith("13e02b6052719f607dacd3a088274f65")     # c1 first
    assert encode_g1(G1Point.identity()) == b"\x40" + bytes(95)
    assert encode_g2(G2Point.identity()) == b"\x40" + bytes(191)
    for k in (0, 1, 2, 77):
        for point, encode, decode in ((G1Point(), encode_g1, decode_g1), (G2Point(), encode_g2, decode_g2)):
            assert decode(encode(point * scalar(k))) == point * scalar(k)


def test_points_that_are_none():
    good = encode_g1(G1Point())
    low_order = G1Point.from_compressed_bytes_unchecked(bytes([0x80]) + bytes(46) + b"\4")
    for data, text in ((good[:-1], "95 bytes"), (bytes(96), "not an uncompressed point"),
                       (b"\xc0" + bytes(95), "not an uncompressed point"),
                       (b"\x40" + bytes(94) + b"\1", "not an uncompressed point"),
                       (good[:-1] + bytes([good[-1] ^ 1]), "not on the curve"),
                       (encode_g1(low_order), "outside the subgroup")):
        with pytest.raises(ValueError, match=text):
            decode_g1(data)
    good = encode_g2(G2Point())
    with pytest.raises(ValueError, match="not on the curve"):
        decode_g2(good[96:] + good[:96])


# ---------------------------------------------------------------- good files
@pytest.mark.parametrize("entry", json.loads((FIXTURES / "digests.json").read_text()), ids=lambda e: e["circuit"])
def test_keys_of_the_reference(entry):
    counts = Counts(*(entry[name] for name in Counts._fields))
    assert counts.params_bytes == entry["bytes"]
    path = FIXTURES / entry["file"].replace(".params", ".vk")
    key = read_verifying_key(path, entry["ic"]).check()
    assert len(key.ic) == entry["ic"] and key.raw == path.read_bytes() and len(key.raw) == counts.vk_bytes
    t = Trapdoor.of_seed(entry["seed"])
    assert key.alpha_g1 == G1Point() * scalar(t.alpha) and key.delta_g2 == G2Point() * scalar(t.delta)
    assert key.gamma_g2 == G2Point() * scalar(t.gamma) and key.beta_g2 == G2Point() * scalar(t.beta)
    assert key.beta_g1 == G1Point() * scalar(t.beta) and key.delta_g1 == G1Point() * scalar(t.delta)


def test_reading(path, whole):
    with ParameterFile(path, COUNTS) as file:
        assert file.size == len(whole) and file.counts == COUNTS
        assert read_verifying_key(path, 2).raw == file.verifying_key.raw == whole[:len(file.verifying_key.raw)]
        for name, width in VECTORS.items():
            reader = file.reader(name)
            assert len(reader) == getattr(COUNTS, name)
            points = reader(0, len(reader))
            assert points.dtype == np.uint8 and points.shape == (len(reader), width) and points.flags.owndata
            start = file.offsets[name]
            assert points.tobytes() == whole[start:start + points.nbytes]
            assert (reader(3, 5) == points[3:8]).all() and reader(len(reader), 0).shape == (0, width)
            with pytest.raises(AssertionError):
                reader(len(reader) - 1, 2)
        error = file.reader("a").bad_point(5)
        assert error.exit == Exit.PARAMETERS and f"a[5] at offset {file.offsets['a'] + 480}" in str(error)


# ---------------------------------------------------------------- bad files
def test_cut_off_or_too_long(path, whole):
    with ParameterFile(path) as file:
        edges = {len(file.verifying_key.raw), *file.offsets.values(), len(whole) - 1}
    ends = sorted({0, 1, 863, 864, 867, 868, 900} | edges)
    for end in ends:
        path.write_bytes(whole[:end])
        refused(lambda: ParameterFile(path, COUNTS), str(path), f"{end} bytes")
    path.write_bytes(whole + b"\0")
    refused(lambda: ParameterFile(path, COUNTS), f"expected {len(whole)} bytes, actual {len(whole) + 1} bytes")
    vk = path.with_suffix(".vk")
    for size in (0, 100, 868, 868 + 191, 868 + 193):
        vk.write_bytes(whole[:size])
        refused(lambda: read_verifying_key(vk), str(vk), f"{size} bytes")


def test_pages_in_place_of_parameters(path):
    pages = {"<html><head><title>504 Gateway Time-out</title></head>\n<body>": "504 Gateway Time-out",
             "\n\n  ipfs cat: context deadline exceeded\n": "context deadline exceeded",
             "<!DOCTYPE html>\n" + "<p>x</p>\n" * 1000: "<!DOCTYPE html>", "\x00\x01\x02": "3 bytes",
             '{"error": "not found"}' + " " * 2000: "not found"}
    for text, part in pages.items():
        path.write_text(text)
        for call in (lambda: ParameterFile(path), lambda: read_verifying_key(path)):
            refused(call, part, "error page")


def test_another_circuits_file(path, whole):
    for name in Counts._fields:
        other = COUNTS._replace(**{name: getattr(COUNTS, name) + 1})
        refused(lambda: ParameterFile(path, other), f"length of {name} ", "parameters of another circuit")
    refused(lambda: read_verifying_key(path, 3), "another circuit")


def test_huge_counts(path, whole):
    for offset in (864, len(whole[:868]) + 2 * 96):
        path.write_bytes(whole[:offset] + b"\xff\xff\xff\xff" + whole[offset + 4:])
        refused(lambda: ParameterFile(path), "4294967295 points")


def test_missing_folder_unreadable(tmp_path, path, monkeypatch):
    refused(lambda: ParameterFile(tmp_path / "none.params"), "No such file")
    refused(lambda: ParameterFile(tmp_path), "not a regular file")
    refused(lambda: read_verifying_key(path / "below.vk"), "Not a directory")
    fifo = tmp_path / "fifo.params"
    os.mkfifo(fifo)
    refused(lambda: ParameterFile(fifo), "not a regular file")

    def denied(*args):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(module.os, "open", denied)
    refused(lambda: ParameterFile(path), "Permission denied")


def test_changes_while_it_is_open(path, whole, monkeypatch):
    with ParameterFile(path, COUNTS) as file:
        os.truncate(path, file.offsets["l"] + 100)
        refused(lambda: file.read_points("b_g2", 0, 1), "cut off", str(path))
        refused(lambda: file.read_points("h", 0, 1), "cut off")
    path.write_bytes(whole)
    with ParameterFile(path, COUNTS) as file:
        replacement = path.with_name("new")
        replacement.write_bytes(whole)
        os.replace(replacement, path)
        refused(lambda: file.read_points("h", 0, 1), "replaced or changed")
    with ParameterFile(path, COUNTS) as file:
        os.utime(path, (1, 1))
        refused(lambda: file.read_points("h", 0, 1), "replaced or changed")
    with ParameterFile(path, COUNTS) as file:
        path.unlink()
        refused(lambda: file.read_points("h", 0, 1), "No such file")
    path.write_bytes(whole)
    with ParameterFile(path, COUNTS) as file:
        def broken(*args):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        monkeypatch.setattr(module.os, "preadv", broken)
        refused(lambda: file.read_points("l", 2, 1), f"offset {file.offsets['l'] + 192}", "Input/output error")


def test_bad_points_of_the_key(path, whole):
    for offset, name in ((5, "alpha_g1"), (100, "beta_g1"), (200, "beta_g2"), (400, "gamma_g2"), (600, "delta_g1"),
                         (700, "delta_g2"), (870, "ic[0]"), (970, "ic[1]")):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1:])
        refused(lambda: read_verifying_key(path).check(), f"read {name} at offset", "not on the curve")
    path.write_bytes(whole[:96] + b"\x40" + bytes(95) + whole[192:])
    refused(lambda: read_verifying_key(path).check(), "beta_g1", "infinity")
    path.write_bytes(b"\xff" + whole[1:])
    refused(lambda: read_verifying_key(path), f"{len(whole)} bytes that do not begin with a point")


def test_a_sparse_file_of_many_inputs_is_not_read_whole(tmp_path):
    """Its count of inputs is compared before the points are read."""
    path = tmp_path / "big.vk"
    with open(path, "wb") as file:
        file.write(next((ROOT / "fixtures" / "params").glob("*.vk")).read_bytes()[:864] + (110_000_000).to_bytes(4, "big"))
        file.truncate(868 + 96 * 110_000_000)
    for ic in (5, None):
        with pytest.raises(CuzkError, match="ic"):
            read_verifying_key(path, ic)
