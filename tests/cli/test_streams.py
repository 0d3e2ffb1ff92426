"""Pipes, closed and full streams, signals: exit codes that a shell can trust."""

import json
import os
import signal
import subprocess
import time

import pytest

from .common import FAKE, REAL, answer_of, cuzk, environment, shell
from .fake_cuzk import Request, proof_of


def test_prove_into_verify(tmp_path):
    for format in ("hex", "base64", "raw", "json"):
        done = shell(
            tmp_path, f"cuzk prove snap s-t01000-1 --format {format} -o - | cuzk verify snap s-t01000-1 --proof -"
        )
        assert done.returncode == 0 and json.loads(done.stdout)["verified"]
    done = shell(tmp_path, "cuzk prove snap s-t01000-1 | cuzk verify snap s-t01000-1 --proof -")
    assert done.returncode == 0 and json.loads(done.stdout)["verified"]
    assert shell(tmp_path, "cuzk prove snap s-t01000-10 -o - | cuzk verify snap s-t01000-1 --proof -").returncode == 10


def test_vanilla_proofs_from_a_pipe(tmp_path):
    done = shell(tmp_path, "echo '[\"AA\"]' | cuzk prove snap s-t01000-1 --vanilla -")
    assert done.returncode == 0 and json.loads(done.stdout)["results"][0]["given"][0][2] == '["AA"]\n'


@pytest.mark.parametrize(
    "line",
    [
        "cuzk prove snap s-t01000-1 >&-",
        "cuzk prove snap s-t01000-1 -o - >&-",
        "cuzk prove snap s-t01000-1 -o f >&-",
        "cuzk verify snap s-t01000-1 --proof - </dev/null >&- ; test $? = 141 && exit 141",
        "cuzk status --json >&-",
        "cuzk --help >&-",
        "cuzk --version >&-",
        "cuzk status >&- 2>&-",
    ],
)
def test_a_closed_standard_output(tmp_path, line):
    done = shell(tmp_path, line)
    assert done.returncode == 141 and b"Traceback" not in done.stderr


def test_a_file_is_finished_although_standard_output_is_closed(tmp_path):
    assert shell(tmp_path, "cuzk prove snap s-t01000-1 -o f --format raw >&-").returncode == 141
    assert (tmp_path / "f").read_bytes() == proof_of(Request("s-t01000-1"))


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_no_file_of_ours_gets_a_standard_descriptor(tmp_path, fd):
    """The first file that is opened after one was closed would get its number, and what we print."""
    shell(tmp_path, f"cuzk prove snap s-t01000-8 -o f {fd}>&-")
    assert (tmp_path / "held").read_bytes() == b"" and (tmp_path / "f").is_file()


@pytest.mark.parametrize(
    "arguments", ["prove snap s-t01000-1", "prove snap s-t01000-1 -o -", "status --json", "--help"]
)
def test_a_reader_that_has_gone(tmp_path, arguments):
    done = shell(tmp_path, f"cuzk {arguments} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 141 and b"Traceback" not in done.stderr and b"Broken" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "prove snap s-t01000-1",
        "prove snap s-t01000-1 -o -",
        "status --json",
        "status",
        "--help",
        "--version",
        "circuit digest snap --sector-size 2KiB",
    ],
)
def test_a_full_standard_output(tmp_path, arguments):
    done = shell(tmp_path, f"cuzk {arguments} >/dev/full")
    assert done.returncode == 18 and b"No space left" in done.stderr and b"Traceback" not in done.stderr


def test_what_went_wrong_first_is_the_exit_code(tmp_path):
    assert shell(tmp_path, "cuzk prove snap s-t01000-10 -o f >/dev/full").returncode in (10, 18)
    assert shell(tmp_path, "cuzk prove snap --format x s-t01000-1 >/dev/full").returncode == 2
    assert shell(tmp_path, "cuzk prove snap s-t01000-500 >&- -o f").returncode == 1


def test_closed_standard_error_and_input(tmp_path):
    assert answer_of(shell(tmp_path, "cuzk prove snap s-t01000-1 2>&-"))["exit"] == 0
    assert answer_of(shell(tmp_path, "cuzk prove snap s-t01000-10 2>&-"))["exit"] == 10
    done = shell(tmp_path, "cuzk verify snap s-t01000-1 --proof - <&-")
    assert done.returncode == 10 and json.loads(done.stdout)["ok"] is False
    assert shell(tmp_path, "cuzk prove snap s-t01000-1 --vanilla - <&-").returncode == 10


def test_a_standard_output_that_does_not_block(tmp_path):
    read, write = os.pipe()
    os.set_blocking(write, False)
    process = subprocess.Popen(
        [*FAKE, "prove", "snap", *[f"s-t01000-1{i:05d}" for i in range(200)]],
        stdout=write,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    os.close(write)
    time.sleep(1)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    assert process.wait(30) == 0 and len(data) > 1 << 16 and json.loads(data)["ok"]


def status_of(folder):
    return json.loads(cuzk(folder, "status", "--json", command=REAL).stdout)


def start(folder, *arguments, **env):
    """A process that says on standard error when it is at work."""
    process = subprocess.Popen(
        [*FAKE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(folder, **env),
    )
    for line in process.stderr:
        if line.strip() in (b"proving", b"generating"):
            return process
    raise AssertionError("it ended")


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals(tmp_path, number, code):
    process = start(tmp_path, "prove", "snap", "s-t01000-1", "s-t01000-60", "s-t01000-2", "--out-dir", "d")
    (worker,) = status_of(tmp_path)["gpu_workers"]
    assert worker["state"] == "proving"
    process.send_signal(number)
    out, err = process.communicate(timeout=5)
    found = json.loads(out)
    assert process.returncode == code == found["exit"] and not found["ok"] and b"Traceback" not in err
    assert [r["exit"] for r in found["results"]] == [0, code, code]  # what was finished is not lost
    assert os.listdir(tmp_path / "d") == ["s-t01000-1.snap.json"]
    after = status_of(tmp_path)
    assert [p["state"] for p in after["processes"]] == ["ended"] and not any(
        w["state"] == "proving" for w in after["gpu_workers"]
    )
    jobs = {job["job_id"]: job for job in after["pipelines"]}
    assert jobs["snap-1000-60-000000000000"]["error"] == f"stopped by {signal.Signals(number).name}"
    assert after["counters"]["total_failed"] == after["counters"]["total_completed"] == 1
    assert jobs["snap-1000-60-000000000000"]["ok"] is False and jobs["snap-1000-1-000000000000"]["ok"] is True


def test_a_stop_that_hangs_is_bounded(tmp_path):
    process = start(tmp_path, "prove", "snap", "s-t01000-60", FAKE_HANGS="1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 143


def test_the_second_signal_ends_at_once(tmp_path):
    process = start(tmp_path, "prove", "snap", "s-t01000-60", FAKE_HANGS="1")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    for line in process.stderr:
        if b"stopped by SIGTERM" in line:
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130 and time.monotonic() - began < 4


def test_signals_while_parameters_are_made(tmp_path):
    process = start(
        tmp_path, "params", "generate", "snap", "--sector-size", "2KiB", "--insecure-seed", "sleep", "--out", "d"
    )
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=5)
    assert process.returncode == 143 and b"stopped by SIGTERM" in err and b"Traceback" not in err


def test_an_ignored_interrupt_stays_ignored(tmp_path):
    process = subprocess.Popen(
        ["bash", "-c", 'trap "" INT; exec "$@"', "-", *FAKE, "prove", "snap", "s-t01000-60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    next(line for line in process.stderr if line.strip() == b"proving")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 143


def test_an_unwritable_status_folder_is_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-1", "--status-dir", "file/below", "--progress", "none")
    assert answer_of(done)["ok"] and len(done.stderr.splitlines()) == 1 and b"warning" in done.stderr
