"""`cuzk status` as a process: forms, codes for monitors, what it imports."""

import json
import os
import signal
import subprocess
import sys

import jsonschema
import pytest

from cuzk_cli.status import Tracker, Writer

from .common import REAL, ROOT, cuzk, environment, shell


def status(folder, *arguments, **more):
    return cuzk(folder, "status", *arguments, command=REAL, **more)


@pytest.fixture
def proving(tmp_path):
    """This process proves P3 of a job on W0."""
    tracker = Tracker(Writer(tmp_path / "status", fsync=False))
    tracker.add_workers([(0, 0), (1, 0)])
    tracker.job_started("snap-1000-1-0123456789ab", "snap", [3, 4])
    tracker.partition_gpu_start("snap-1000-1-0123456789ab", 3, 0)
    return tmp_path


def test_json_is_one_line_of_its_schema(proving):
    done, shape = status(proving, "--json"), status(proving, "--schema")
    answer = json.loads(done.stdout)
    assert done.returncode == shape.returncode == 0 and done.stdout.count(b"\n") == 1 and not done.stderr
    jsonschema.Draft202012Validator(json.loads(shape.stdout)).validate(answer)
    assert answer["ok"] and [w["state"] for w in answer["gpu_workers"]] == ["proving", "idle"]
    assert answer["processes"][0]["pid"] == os.getpid()


def test_absent_is_an_answer(tmp_path):
    done = status(tmp_path, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["state"] == "absent" and answer["ok"] is False and answer["pipelines"] == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema_version": 999}', b"\xff" * 100, b"[" * 100000])
def test_a_file_that_cannot_be_read_is_an_answer(tmp_path, content):
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / f"status-{os.getpid()}.json").write_bytes(content)
    done = status(tmp_path, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["ok"] is False and answer["reasons"] and not done.stderr
    assert status(tmp_path, "--check").returncode == 3 and status(tmp_path).returncode == 0


def test_check(proving):
    done = status(proving, "--check")
    assert (
        done.returncode == 0
        and done.stdout.startswith(b"CUZK OK - 1 job, 0/2 partitions")
        and done.stdout.count(b"\n") == 1
    )
    assert status(proving, "--check", "-w", "0", "-c", "50").returncode == 1
    assert status(proving, "--check", "-w", "0", "-c", "0").returncode == 2


@pytest.mark.parametrize("word, code", [("ok", 0), ("warning", 1), ("critical", 2), ("unknown", 3)])
def test_check_of_nothing(tmp_path, word, code):
    assert status(tmp_path, "--check", "--absent", word).returncode == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("-w", "x"),
        ("-w", "nan"),
        ("-w", "5", "-c", "1"),
        ("-w", "-1"),
        ("--absent", "perhaps"),
        ("--pid", "0"),
        ("--json",),
        ("--watch",),
        ("--no-such-option",),
        ("more",),
    ],
)
def test_whatever_is_no_check_is_unknown(proving, arguments):
    done = status(proving, "--check", *arguments)
    assert done.returncode == 3 and done.stdout.startswith(b"CUZK UNKNOWN") and done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "line",
    ["cuzk status --check >&-", "cuzk status --check >/dev/full", "cuzk status --check | true; exit ${PIPESTATUS[0]}"],
)
def test_a_check_that_cannot_be_said_is_unknown(tmp_path, line):
    assert shell(tmp_path, line).returncode == 3


def test_prometheus(proving):
    done = status(proving, "--prometheus")
    assert done.returncode == 0 and done.stdout.endswith(b"\n") and b"cuzk_running_jobs" in done.stdout


def test_table_shows_ids_whole(proving):
    assert b"snap-1000-1-0123456789ab P3" in status(proving).stdout


@pytest.mark.parametrize(
    "arguments", [("--json", "--schema"), ("--json", "--prometheus"), ("--schema", "--watch"), ("--pid", "x")]
)
def test_usage(tmp_path, arguments):
    done = status(tmp_path, *arguments)
    assert done.returncode == 2 and done.stderr and not done.stdout


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_watch(proving, number, code):
    process = subprocess.Popen(
        [*REAL, "status", "--json", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=proving,
        env=environment(proving),
    )
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.send_signal(number)
    assert process.wait(5) == code and all(a["ok"] for a in answers) and process.stderr.read() == b""


def test_it_imports_no_arrays(tmp_path):
    code = (
        "import sys; sys.argv = ['cuzk', 'status', '--json']\nfrom cuzk_cli.cli import main\nmain._run()\n"
        "print([m for m in ('jax', 'jaxlib', 'numpy', 'numba', 'tqdm', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, env=environment(tmp_path))
    assert done.stderr.strip() == b"[]" and json.loads(done.stdout)["state"] == "absent"
