import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from cuzk_cli.status import STALE_AFTER, Tracker, process, read_status, reader, schema
from cuzk_cli.status.writer import ENDED_SECONDS

from .common import JOB, job, partition, quick, two_workers, worker

VALIDATOR = jsonschema.Draft202012Validator(schema.ANSWER)


def read(folder, **more):
    """The answer, which is always schema-valid, and JSON."""
    answer = read_status(folder, **more)
    VALIDATOR.validate(json.loads(json.dumps(answer, allow_nan=False)))
    assert answer["ok"] == (answer["state"] == "fresh")
    return answer


@pytest.fixture
def one(tmp_path):
    """A folder with the status of this process: W0 works on A/P0; and a way to change what is in the file."""
    tracker = two_workers(quick(tmp_path))
    tracker.partition_gpu_start("A", 0, 0)
    path = tmp_path / f"status-{os.getpid()}.json"

    def edit(name=path.name, **changes):
        document = {**json.loads(path.read_bytes()), **changes}
        (tmp_path / name).write_text(json.dumps(document))
        return document

    tracker.edit, tracker.folder, tracker.path = edit, tmp_path, path
    return tracker


# ---- fresh, stale, dead, ended, absent
def test_fresh(one):
    answer = read(one.folder)
    assert answer["state"] == "fresh" and answer["reasons"] == [] and answer["age_seconds"] < STALE_AFTER
    found = answer["processes"][0]
    assert (found["pid"], found["state"], found["status_file"]) == (os.getpid(), "fresh", str(one.path))
    assert found["pid_start"] == process.start_time(os.getpid()) and found["boot_id"] == process.boot_id()
    assert worker(answer, 0)["pid"] == os.getpid() and job(answer, "A")["run_id"] == found["run_id"]


def test_stale_is_old_though_the_process_lives(one):
    one.edit(written_at_unix=time.time() - 100)
    answer = read(one.folder)
    assert answer["state"] == "stale" and "no write for 100 s" in answer["reasons"][0] and answer["age_seconds"] >= 100
    assert worker(answer, 0)["state"] == "proving"
    assert read(one.folder, stale_after=1000.0)["state"] == "fresh"


def test_clock_that_went_back_is_a_reason_and_the_age_is_not_negative(one):
    one.edit(written_at_unix=time.time() + 500)
    answer = read(one.folder)
    assert answer["state"] == "fresh" and answer["age_seconds"] < STALE_AFTER
    assert "the clock went back" in answer["reasons"][0]


def test_process_that_hangs_is_stale_also_when_the_clock_went_back(one):
    one.edit(written_at_unix=time.time() + 500, written_at_boottime=process.boot_time() - 100)
    assert read(one.folder)["state"] == "stale"


@pytest.mark.parametrize("changes", [{"pid_start": 1}, {"boot_id": "00000000-0000-0000-0000-000000000000"},
                                     {"pid": 2**31 - 2}, {"pid": 2**52, "pid_start": None}])
def test_dead_by_identity(one, changes):
    one.edit(**changes)
    answer = read(one.folder)
    assert answer["state"] == "dead" and answer["gpu_workers"] == [] and "gone" in answer["reasons"][0]


def test_file_without_identity_is_judged_by_the_pid_alone(one):
    one.edit(pid_start=None, boot_id=None)
    assert read(one.folder)["state"] == "fresh"


def test_killed_process_is_dead_and_its_work_is_not_shown_as_going_on(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", f"""
import sys, time
from cuzk_cli.status import Tracker, Writer
tracker = Tracker(Writer({str(tmp_path)!r}))
tracker.add_workers([(0, 0)])
tracker.start()
tracker.job_started({JOB!r}, "snap-2k", [0, 1, 2])
tracker.partition_gpu_end(tracker.partition_gpu_start({JOB!r}, 0, 0), "done")
tracker.partition_gpu_start({JOB!r}, 1, 0)
print("ready", flush=True)
time.sleep(600)
"""], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    try:
        assert child.stdout.readline() == b"ready\n"
        answer = read(tmp_path)
        assert answer["state"] == "fresh" and worker(answer, 0)["current_partition"] == 1
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)     # a zombie is dead too
        for _ in range(2):
            answer = read(tmp_path)
            assert (answer["state"], answer["processes"][0]["state"]) == ("dead", "dead")
            assert answer["gpu_workers"] == [] and answer["gpus"] == []
            assert [p["state"] for p in job(answer, JOB)["partitions"]] == ["done", "failed", "failed"]
            assert job(answer, JOB)["ok"] is False and answer["counters"]["jobs_running"] == 0
            child.wait()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_ended_is_shown_for_ten_minutes_and_never_counted(one):
    one.close()
    answer = read(one.folder)
    assert (answer["state"], answer["ok"]) == ("absent", False)
    assert answer["processes"][0]["state"] == "ended" and answer["gpu_workers"] == []
    assert partition(answer, "A", 0)["state"] == "failed"
    one.edit(state="running", name="status-1.json")
    assert read(one.folder)["state"] == "fresh"
    one.edit(written_at_unix=time.time() - ENDED_SECONDS - 1)
    assert [p["state"] for p in read(one.folder)["processes"]] == ["fresh"]


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: folder.mkdir(),
                                  lambda folder: (folder.mkdir(), (folder / "status.json").write_text("x"))])
def test_absent(make, tmp_path):
    make(tmp_path / "status")
    answer = read(tmp_path / "status")
    assert answer["state"] == "absent" and answer["reasons"] == []
    assert answer["pipelines"] == answer["gpu_workers"] == answer["processes"] == answer["jobs"] == answer["gpus"] == []


# ---- several processes
def test_all_processes_in_one_object_and_the_worst_state_of_them(one):
    me = os.getpid()
    one.job_finished("B", True)
    one.edit("status-1.json", pid=me, run_id="second")
    one.edit("status-2.json", pid_start=1, run_id="third")
    answer = read(one.folder)
    assert {p["run_id"]: p["state"] for p in answer["processes"]} == {
        one.snapshot()["run_id"]: "fresh", "second": "fresh", "third": "dead"}
    assert answer["state"] == "dead" and len(answer["processes"]) == 3
    assert len(answer["gpu_workers"]) == 4 and len(answer["pipelines"]) == 6
    assert answer["counters"]["total_completed"] == answer["counters"]["completed_total"] == 3
    assert answer["counters"]["completed_by_kind"] == {"snap-2k": 3} and answer["counters"]["jobs_running"] == 2
    assert read(one.folder, pid=me)["state"] == "fresh" and len(read(one.folder, pid=me)["processes"]) == 1
    assert read(one.folder, pid=12345)["state"] == "absent"


def test_short_lists_for_jq(one):
    one.job_started(JOB, "snap-2k", [0])
    one.job_started("snap-x-x-0123456789ab", "snap-2k", [0])
    one.job_finished("B", False, "no memory", "RESOURCES", 13)
    answer = read(one.folder)
    assert {j["job_id"]: j["sector"] for j in answer["jobs"]} == {
        "A": None, "B": None, JOB: "s-t01000-17", "snap-x-x-0123456789ab": None}
    assert answer["gpus"] == [{"ordinal": 0, "state": "proving", "job_id": "A", "pid": os.getpid()}]
    assert answer["last_error"]["code"] == "RESOURCES" and answer["last_error"]["pid"] == os.getpid()


# ---- files that are no status documents
def nested(levels):
    return "[" * levels + "]" * levels


BAD = {
    "empty": "", "blank": " \n", "half": None, "no JSON": "hello", "no object": "[]", "null": "null",
    "other object": "{}", "deep": nested(100_000), "bytes": "\x80\xff", "NaN": '{"schema_version": NaN}',
    "long number": "9" * 5000,
    "infinite": {"uptime_secs": 1e400}, "huge number": {"written_at_unix": 10**300}, "huge integer": {"pid": 10**400},
    "newer": {"schema_version": 2}, "much newer": {"schema_version": 10**400}, "text": {"schema_version": "1"},
    "workers are no list": {"gpu_workers": {}}, "worker is half": {"gpu_workers": [{"worker_id": 0}]},
    "job is a number": {"pipelines": [5]},
    "counters missing": {"counters": {}}, "counter is text": {"counters": {"total_completed": "3"}},
    "unknown state": {"state": "well"}, "negative": {"uptime_secs": -1.0}, "flag for a number": {"pid": True},
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_document_is_an_answer_with_a_reason(name, one):
    bad = BAD[name]
    if bad is None:
        one.path.write_bytes(one.path.read_bytes()[:-100])
    elif isinstance(bad, str):
        one.path.write_bytes(bad.encode("latin-1"))
    else:
        document = json.loads(one.path.read_bytes())
        one.path.write_text(json.dumps({**document, **bad}))
    answer = read(one.folder)
    assert (answer["state"], answer["ok"], len(answer["reasons"])) == ("unreadable", False, 1)
    reason = answer["reasons"][0]
    assert reason.startswith(str(one.path)) and "\n" not in reason and len(reason) < 400
    assert answer["processes"][0]["pid"] == os.getpid() and answer["processes"][0]["state"] == "unreadable"
    if "newer" in name:
        assert "newer" in answer["reasons"][0]


def test_one_that_is_unreadable_does_not_hide_the_others(one):
    (one.folder / "status-1.json").write_text("{")
    answer = read(one.folder)
    assert answer["state"] == "unreadable" and worker(answer, 0)["state"] == "proving"


def test_keys_that_are_new_are_no_reason(one):
    document = json.loads(one.path.read_bytes())
    document["gpu_workers"][0]["temperature"] = 60
    one.edit(gpu_workers=document["gpu_workers"], more={"x": 1})
    assert worker(read(one.folder), 0)["temperature"] == 60


def test_every_prefix_of_a_document_is_an_answer(one):
    data = one.path.read_bytes()
    for length in range(0, len(data) - 1, 97):
        one.path.write_bytes(data[:length])
        assert read_status(one.folder)["state"] == "unreadable"


@pytest.mark.parametrize("make", [
    lambda path: path.mkdir(), lambda path: os.mkfifo(path), lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("/dev/zero")], ids=["folder", "pipe", "link to itself", "device"])
def test_what_is_no_plain_file(make, one):
    one.path.unlink()
    make(one.path)
    answer = read(one.folder)
    assert answer["state"] == "unreadable" and str(one.path) in answer["reasons"][0]


def test_link_to_nothing_is_as_no_file(one):
    one.path.unlink()
    one.path.symlink_to("nothing")
    assert read(one.folder)["state"] == "absent"


def test_file_that_may_not_be_read(one, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reader, "read_whole", refuse)
    answer = read(one.folder)
    assert answer["state"] == "unreadable" and answer["reasons"] == [f"{one.path}: Permission denied"]


def test_folder_that_may_not_be_read(one, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    answer = read(one.folder)
    assert answer["state"] == "unreadable" and answer["reasons"] == [f"{one.folder}: Permission denied"]
    assert answer["processes"] == []


@pytest.mark.parametrize("folder", ["plain/below", "\0"])
def test_folder_that_is_none(folder, tmp_path):
    (tmp_path / "plain").write_text("")
    answer = read(tmp_path / folder)
    assert answer["state"] == "unreadable" and len(answer["reasons"]) == 1


def test_boot_clock_is_optional(one, monkeypatch):
    monkeypatch.setattr(process, "boot_time", lambda: None)
    assert read(one.folder)["state"] == "fresh"
    one.edit(written_at_boottime=None)
    assert read(one.folder)["state"] == "fresh"


def test_schemas_are_schemas():
    for of in (schema.ANSWER, schema.DOCUMENT):
        jsonschema.Draft202012Validator.check_schema(of)


def test_importing_takes_the_standard_library_only():
    code = """
import sys
before = set(sys.modules)
import cuzk_cli.status, cuzk_cli.status.check, cuzk_cli.status.prometheus, cuzk_cli.status.table, cuzk_cli.status.schema
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names) - {"cuzk_cli"}))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2],
                           check=True)
    assert found.stdout.strip() == "[]"
