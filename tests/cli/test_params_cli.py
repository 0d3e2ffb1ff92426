"""`cuzk params generate snap`: where it must not write, what it leaves when it cannot finish."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest

from cuzk_cli.params import generate as generation
from cuzk_cli.params.marker import DEFAULT_FOLDER, LOCK, MARKER
from cuzk_cli.protocol.table import parameter_stem, parse_size
from cuzk_cli.prove import memory

from .common import HERE, environment

GENERATE = ("params", "generate", "snap", "--sector-size", "2KiB", "--insecure-seed", "s", "--out")


def refused(inside, folder, code, *words):
    found = inside(*GENERATE, folder)
    assert found.code == code == found.json["exit"] and found.json["results"] == [] and len(found.lines) == 1, found
    assert found.lines[0] == "cuzk: " + found.json["errors"][0]["message"]
    assert str(folder) in found.lines[0] and all(word in found.lines[0] for word in words), found.lines
    return found


@pytest.fixture
def no_device(monkeypatch):
    """Points that are none, at once."""
    zeros = lambda width: lambda words: np.zeros((len(words), width), np.uint8)
    monkeypatch.setattr(generation, "device_fixed_base",
                        lambda: generation.FixedBase(zeros(96), zeros(192), 1 << 17))


def test_folders_of_the_network_s_parameters(inside, no_device, tmp_path, monkeypatch):
    refused(inside, DEFAULT_FOLDER, 11, "the folder of the network's parameters")
    monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", str(tmp_path / "mine"))
    refused(inside, tmp_path / "mine", 11, "FIL_PROOFS_PARAMETER_CACHE")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    refused(inside, tmp_path / "link", 11, "FIL_PROOFS_PARAMETER_CACHE")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("marker, word", [
    (None, MARKER), ('{"seed": "other"}', "'other'"), ("", "cannot be read"), ("{", "cannot be read"), ("[]", "cannot"),
    ('{"seed": 5}', "cannot be read")])
def test_folders_that_hold_others(inside, no_device, tmp_path, marker, word):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "v28-x.params").write_bytes(b"theirs")
    if marker is not None:
        (tmp_path / "d" / MARKER).write_text(marker)
    refused(inside, tmp_path / "d", 11, word)
    assert (tmp_path / "d" / "v28-x.params").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path / "d")) == sorted(["v28-x.params"] + [MARKER] * (marker is not None))


@pytest.mark.parametrize("name", ["plain", "plain/below", "/proc/none"])
def test_folders_that_cannot_be_made(inside, no_device, tmp_path, name):
    (tmp_path / "plain").write_text("")
    refused(inside, tmp_path / name, 18)
    assert os.listdir(tmp_path) == ["plain"] or set(os.listdir(tmp_path)) == {"plain", "XDG_STATE_HOME"}


def test_too_little_memory(inside, no_device, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (1 << 30, "a test"))
    found = inside(*GENERATE, tmp_path / "d")
    assert found.code == 13 and f"actual {1 << 30} bytes" in found.lines[0] and not (tmp_path / "d").exists()


@pytest.fixture
def small(tmp_path):
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("no right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_too_little_space(inside, no_device, small):
    refused(inside, small, 13, "655790812 bytes", "free some space")
    assert sorted(os.listdir(small)) == [LOCK, MARKER]


def test_space_that_is_used_up_meanwhile(inside, no_device, small, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("usage", "free")(1 << 40))
    found = inside(*GENERATE, small)
    assert found.code == 18 == found.json["exit"] and len(found.lines) == 1 and "No space left" in found.lines[0]
    assert sorted(os.listdir(small)) == [LOCK, MARKER]


@pytest.mark.parametrize("arguments", [
    ["--insecure-seed", "s", "--out", "d"], ["--sector-size", "2KiB", "--out", "d"],
    ["--sector-size", "2KiB", "--insecure-seed", "s"], ["--sector-size", "3KiB", "--insecure-seed", "s", "--out", "d"],
    ["--sector-size", "2KiB", "--insecure-seed", "s", "--out", "d", "--progress", "loud"],
    ["--sector-size", "2KiB", "--insecure-seed", "s", "--out", "d", "--device", "tpu"],
    ["--sector-size", "2KiB", "--insecure-seed", "s", "--out", "d", "--nonsense"],
    ["--sector-size", "2KiB", "--insecure-seed", "s", "--out", "d", "more"]])
def test_usage(inside, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert inside("params", "generate", "snap", *arguments).code == 2
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_file(tmp_path, number, code):
    process = subprocess.Popen([sys.executable, str(HERE / "slow_base.py"), *GENERATE, "d", "--device", "cpu"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
                               env={**environment(tmp_path), "HOME": os.environ["HOME"]})
    assert any(line == b"multiplying\n" for line in process.stderr)
    assert len(list((tmp_path / "d").glob(".v28-*.params.*.tmp"))) == 1
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert process.returncode == code and time.monotonic() - began < 5
    assert b"no parameter file was finished" in err and b"Traceback" not in err and out == b""
    assert sorted(os.listdir(tmp_path / "d")) == [LOCK, MARKER]
    assert json.loads((tmp_path / "d" / MARKER).read_text())["seed"] == "s"


def test_what_a_killed_process_left_is_removed_by_the_next(inside, no_device, small):
    (small / MARKER).write_text('{"seed": "s"}')
    (small / ".v28-x.params.1.tmp").write_bytes(b"half")
    refused(inside, small, 13)
    assert sorted(os.listdir(small)) == [LOCK, MARKER]


def test_check_and_list_of_a_folder(inside, tmp_path):
    folder = tmp_path / "d"
    found = inside("params", "check", "snap", "--sector-size", "2KiB", "--params", folder)
    assert found.code == 11 == found.json["exit"] and "BLAKE2b 311f92a3e75036ced01b1c0025f1fa0c" in found.lines[0]
    assert inside("params", "list", "--params", folder).code == 11
    folder.mkdir()
    assert inside("params", "list", "--params", folder).json["files"] == []
    (folder / f"{parameter_stem('snap', parse_size('2KiB'))}.params").write_bytes(b"<html>not found</html>")
    found = inside("params", "check", "snap", "--sector-size", "2KiB", "--params", folder, "--full")
    assert found.code == 11 and "not found" in found.lines[0] and len(found.lines) == 1
    answer = inside("params", "list", "--params", folder).json
    (file,) = answer["files"]
    assert (file["kind"], file["sector_size"], file["size_bytes"], file["vk"]) == ("snap", "2KiB", 22, None)
    assert answer["test_parameters"] is False and file["network_accepts"] is None
    (folder / MARKER).write_text('{"seed": "s"}')
    answer = inside("params", "list", "--params", folder).json
    assert answer["insecure_seed"] == "s" and answer["files"][0]["network_accepts"] is False


@pytest.mark.parametrize("arguments", [
    ["check", "snap"], ["check", "snap", "--sector-size", "3KiB"], ["check", "other", "--sector-size", "2KiB"],
    ["check", "snap", "--sector-size", "2KiB", "--params", "d", "--test-params"],
    ["check", "snap", "--sector-size", "2KiB", "--progress", "loud"], ["list", "--params", "d", "--test-params"]])
def test_usage_of_check_and_list(inside, arguments):
    assert inside("params", *arguments).code == 2


@pytest.mark.slow
def test_a_check_of_every_point(inside, tmp_path):
    made = subprocess.run([sys.executable, "-m", "cuzk_cli", *GENERATE, "d"], cwd=tmp_path, capture_output=True,
                          env={**environment(tmp_path), "HOME": os.environ["HOME"]})
    assert made.returncode == 0, made.stderr
    check = ("params", "check", "snap", "--sector-size", "2KiB", "--full", "--params", tmp_path / "d")
    found = subprocess.run([sys.executable, "-m", "cuzk_cli", *map(str, check)], capture_output=True,
                           env={**environment(tmp_path), "HOME": os.environ["HOME"]})
    answer = json.loads(found.stdout)
    assert found.returncode == 0 and answer["digest"] == json.loads(made.stdout)["digest"]
    assert answer["points_checked"] == sum(answer["counts"].values()) - answer["counts"]["ic"]
    assert answer["network_accepts"] is False and answer["vk"].endswith(".vk")
