"""One JSON object on standard output, one line for each problem on standard error, one table of exit codes."""

import json
import re
import shutil

import pytest

from cuzk_cli.errors import MEANING

from .common import REAL, answer_of, cuzk, shell


def test_a_proof(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "x/s-t01000-1")
    (result,) = answer_of(done)["results"]
    assert result["sector"] == "s-t01000-1" and result["verified"] and len(result["proof"]) == 384
    assert done.returncode == 0


@pytest.mark.parametrize("code", [10, 11, 12, 13, 14, 15])
def test_each_class_has_its_code(tmp_path, code):
    done = cuzk(tmp_path, "prove", "snap", f"x/s-t01000-{code}", "--progress", "none")
    found = answer_of(done)
    assert done.returncode == code and found["results"][0]["exit"] == code and found["results"][0]["proof"] is None
    assert len(done.stderr.splitlines()) == len(found["results"][0]["errors"]) == (2 if code == 10 else 1)
    for line, problem in zip(done.stderr.decode().splitlines(), found["results"][0]["errors"]):
        assert line == f"cuzk: {problem['message']}"
        assert set(problem) == {"exit", "operation", "path", "expected", "actual", "hint", "message"}


def test_json_errors_are_objects_only(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "x/s-t01000-10", "--json-errors", "--progress", "none")
    assert len(answer_of(done)["results"][0]["errors"]) == 2 and done.stderr == b""


def test_a_failing_sector_stops_no_other(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-1", "s-t01000-13", "s-t01000-10", "s-t01000-2")
    assert [r["exit"] for r in answer_of(done)["results"]] == [0, 13, 10, 0]
    assert done.returncode == 13  # of the first that failed


def test_an_internal_error_is_one_line_and_its_trace_is_logged(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-500", "--progress", "none")
    found = answer_of(done)
    log = tmp_path / "state" / "cuzk" / "error.log"
    assert done.returncode == 1 and found["results"] == [] and found["errors"][0]["exit"] == 1
    assert (
        len(done.stderr.splitlines()) == 1
        and str(log).encode() in done.stderr
        and b"RuntimeError: a fault of ours" in done.stderr
    )
    assert "Traceback" in log.read_text()


def test_an_internal_error_that_cannot_be_logged(tmp_path):
    (tmp_path / "state").write_text("a file")
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-500", "--progress", "none")
    assert answer_of(done)["exit"] == 1 and b"could not be logged" in done.stderr


def test_no_memory(tmp_path):
    assert answer_of(cuzk(tmp_path, "prove", "snap", "s-t01000-501"))["exit"] == 13


def test_warnings_go_to_standard_error(tmp_path):
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-7", "--progress", "none")
    assert answer_of(done)["ok"] and done.stderr == b"cuzk: warning: a warning\n"


def test_progress(tmp_path):
    plain = cuzk(tmp_path, "prove", "snap", "s-t01000-1").stderr.decode()
    assert not re.search(r"[\r\x1b]", plain)  # no bars, no colours: this is no terminal
    lines = cuzk(tmp_path, "prove", "snap", "s-t01000-1", "--progress", "json").stderr.decode().splitlines()
    assert lines and all(json.loads(line)["event"] == "partition" for line in lines)
    assert json.loads(lines[-1])["state"] == "done"


def test_usage_is_two_and_says_everything(tmp_path):
    done = cuzk(
        tmp_path,
        "prove",
        "snap",
        "--format",
        "pem",
        "--progress",
        "loud",
        "--device",
        "tpu",
        "--partition",
        "1,x",
        "--status-mode",
        "999",
        "-o",
        "a",
        "--out-dir",
        "b",
    )
    assert done.returncode == 2 and len(answer_of(done)["errors"]) == len(done.stderr.splitlines()) == 7


@pytest.mark.parametrize(
    "arguments",
    [
        ("prove", "snap"),
        ("prove", "snap", "a", "b", "-o", "f"),
        ("prove", "snap", "a", "b", "--comm-r-old", "00"),
        ("prove", "snap", "a/s-t01000-1", "b/s-t01000-1", "--out-dir", "d"),
        ("prove", "snap", "a", "--partition", "-1"),
        ("prove", "snap", "a", "--no-gpu", "--device", "cuda"),
        ("prove", "snap", "a", "-o", ""),
        ("prove", "snap", "a", "--no-such-option"),
        ("prove", "snap", "a", "--workers", "0"),
        ("prove", "nothing"),
        ("nothing",),
        (),
        ("verify", "snap"),
        ("circuit", "digest", "snap"),
        ("circuit", "digest", "snap", "--sector-size", "3KiB"),
        ("params", "generate", "snap", "--sector-size", "2KiB"),
    ],
)
def test_usage(tmp_path, arguments):
    done = cuzk(tmp_path, *arguments)
    assert done.returncode == 2 and done.stderr and b"Traceback" not in done.stderr
    assert not list(tmp_path.glob("[ad]*"))


def test_insecure_options_are_not_read_from_the_environment(tmp_path):
    names = (
        "INSECURE_RANDOMNESS",
        "CUZK_INSECURE_RANDOMNESS",
        "CUZK_PROVE_SNAP_INSECURE_RANDOMNESS",
        "PROVE_SNAP_INSECURE_RANDOMNESS",
    )
    done = cuzk(tmp_path, "prove", "snap", "s-t01000-1", env=dict.fromkeys(names, "a"))
    assert answer_of(done)["results"][0]["given"][1]["insecure_randomness"] is None
    names = ("INSECURE_SEED", "CUZK_INSECURE_SEED", "CUZK_PARAMS_GENERATE_SNAP_INSECURE_SEED")
    assert (
        cuzk(
            tmp_path, "params", "generate", "snap", "--sector-size", "2KiB", "--out", "d", env=dict.fromkeys(names, "a")
        ).returncode
        == 2
    )


def test_storage_folders(tmp_path):
    def given(*arguments, **env):
        return answer_of(cuzk(tmp_path, "prove", "snap", "s-t01000-1", *arguments, env=env))["results"][0]["given"][0][
            1
        ]

    assert given(CUZK_STORAGE="/a:/b:") == ["/a", "/b"]
    assert given("--storage", "/c", "--storage", "/d", CUZK_STORAGE="/a") == ["/c", "/d"]
    assert given() == []


def test_every_option_arrives(tmp_path):
    done = cuzk(
        tmp_path,
        "prove",
        "snap",
        "--vanilla",
        "-",
        "--sector-size",
        "2KiB",
        "--comm-r-old",
        "a",
        "--comm-r-new",
        "b",
        "--comm-d-new",
        "c",
        "--partition",
        "0,2",
        "--params",
        "p",
        "--insecure-randomness",
        "s",
        "--no-gpu",
        "--workers",
        "3",
        "--monolithic",
        "--no-resume",
        "--wait",
        "--on-device-error",
        "fail",
        "--memory-budget",
        "8GiB",
        "--deadline",
        "1h30m",
        stdin=b"[]",
    )
    request, options = answer_of(done)["results"][0]["given"]
    assert request == [None, [], "[]", "2KiB", "a", "b", "c", [0, 2], None, None]
    assert options == {
        "params": "p",
        "test_params": False,
        "insecure_randomness": "s",
        "device": "cpu",
        "workers": 3,
        "vk": None,
        "monolithic": True,
        "resume": False,
        "wait": True,
        "on_device_error": "fail",
        "memory_budget": 8 << 30,
    }


def test_version_and_help(tmp_path):
    version = cuzk(tmp_path, "--version", command=REAL)
    assert (
        version.returncode == 0 and b"JAX" in version.stdout and b"Rust daemon" in version.stdout and not version.stderr
    )
    for arguments in (["--help"], ["prove", "--help"]):
        text = cuzk(tmp_path, *arguments, command=REAL).stdout.decode()
        assert all(re.search(rf"^ +{int(code)} {re.escape(meaning)}$", text, re.M) for code, meaning in MEANING.items())


def test_generate_and_digest(tmp_path):
    made = cuzk(tmp_path, "params", "generate", "snap", "--sector-size", "2KiB", "--insecure-seed", "s", "--out", "d")
    assert answer_of(made)["insecure_seed"] == "s"
    full = cuzk(
        tmp_path, "params", "generate", "snap", "--sector-size", "2KiB", "--insecure-seed", "full", "--out", "-"
    )
    assert answer_of(full)["errors"][0]["path"] == "-" and full.returncode == 18
    digest = cuzk(tmp_path, "circuit", "digest", "snap", "--sector-size", "2KiB")
    assert digest.returncode == 0 and json.loads(digest.stdout)["circuit"] == "snap 2KiB"


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_jq(tmp_path):
    assert shell(tmp_path, "cuzk prove snap s-t01000-1 2>/dev/null | jq -e .ok").stdout == b"true\n"
    assert shell(tmp_path, "cuzk prove snap s-t01000-10 2>/dev/null | jq -e .ok").returncode != 0


def test_the_fake_prover_has_the_interface_of_the_real_one():
    import inspect

    from cuzk_cli.prove import api, snap

    from . import fake_cuzk

    for name in ("prove", "verify", "digest", "generate"):
        fake, real = (list(inspect.signature(getattr(module, name)).parameters) for module in (fake_cuzk, api))
        assert fake == real, name
    assert fake_cuzk.Request._fields == snap.Request._fields
    assert list(fake_cuzk.Options.__dataclass_fields__) == list(api.Options.__dataclass_fields__)
