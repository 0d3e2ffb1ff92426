"""The answer for monitoring and for people."""
import os
import re

import pytest

from cuzk_cli.status import read_status
from cuzk_cli.status.check import check
from cuzk_cli.status.prometheus import prometheus
from cuzk_cli.status.table import table

from .common import JOB, quick, two_workers


@pytest.fixture
def answer(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.job_started(JOB, "snap-2k", [0, 1, 2])
    tracker.partition_gpu_end(tracker.partition_gpu_start(JOB, 0, 0), "done", 1200.0)
    tracker.partition_gpu_start(JOB, 1, 0)
    tracker.partition_gpu_start("A", None, 1)
    tracker.waiting("B", {"kind": "memory", "need": 5, "have": 3})
    tracker.job_finished("B", False, "no memory")
    return read_status(tmp_path)


# ---- check
LINE = re.compile(r"CUZK (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+ \| "
                  r"age=(U|\d+s);[\d.]+;[\d.]+;0 partitions=\d+;;;0;\d+")


@pytest.mark.parametrize("state, age, word, code", [
    ("fresh", 3.0, "OK", 0), ("fresh", 20.0, "WARNING", 1), ("fresh", 60.0, "CRITICAL", 2),
    ("stale", 16.0, "WARNING", 1), ("stale", 9.0, "WARNING", 1), ("stale", 61.0, "CRITICAL", 2),
    ("dead", 1.0, "CRITICAL", 2), ("unreadable", None, "UNKNOWN", 3)])
def test_check(answer, state, age, word, code):
    line, found = check({**answer, "state": state, "age_seconds": age}, 15, 60)
    assert LINE.fullmatch(line) and line.startswith(f"CUZK {word} - ") and found == code


@pytest.mark.parametrize("absent, code", [("ok", 0), ("warning", 1), ("critical", 2), ("unknown", 3)])
def test_check_of_nothing(tmp_path, absent, code):
    line, found = check(read_status(tmp_path), 15, 60, absent)
    assert LINE.fullmatch(line) and found == code and "absent" in line


def test_check_line_in_full(answer):
    assert check({**answer, "age_seconds": 3.2}, 60, 300) == (
        "CUZK OK - 2 jobs, 1/5 partitions, fresh | age=3s;60;300;0 partitions=1;;;0;5", 0)


@pytest.mark.parametrize("warning, critical, absent",
                         [(60, 15, "ok"), (-1, 5, "ok"), (float("nan"), 60, "ok"), (15, 60, "fine")])
def test_check_of_thresholds_without_sense_is_unknown(answer, warning, critical, absent):
    line, code = check(answer, warning, critical, absent)
    assert code == 3 and line.startswith("CUZK UNKNOWN - ")


def test_check_is_one_line_whatever_the_reason(answer):
    line, _ = check({**answer, "reasons": ["a|b\nc\ud800\x1b[2J"]}, 15, 60)
    assert line.count("|") == 1 and "\n" not in line and "\x1b" not in line
    line.encode()


# ---- Prometheus
def samples(text):
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in found
            found[name] = float(value)
    return found


def test_prometheus_has_upstreams_names(answer):
    text = prometheus(answer)
    found = samples(text)
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert found["cuzk_proofs_completed_total"] == 0 and found["cuzk_proofs_failed_total"] == 1
    assert found['cuzk_proofs_failed{proof_kind="snap-2k"}'] == 1
    assert (found["cuzk_running_jobs"], found["cuzk_gpu_workers"], found["cuzk_gpu_workers_proving"]) == (2, 2, 2)
    assert found['cuzk_partitions{state="gpu"}'] == 3 and found["cuzk_queue_depth"] == 1 and found["cuzk_up"] == 1
    assert "cuzk_uptime_seconds" in found and "cuzk_status_age_seconds" in found


def test_prometheus_durations(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.job_finished("A", True)
    found = samples(prometheus(read_status(tmp_path)))
    assert found['cuzk_proof_duration_seconds_count{proof_kind="snap-2k"}'] == 1
    assert found['cuzk_proof_duration_seconds_sum{proof_kind="snap-2k"}'] >= 0


def test_prometheus_of_nothing(tmp_path):
    found = samples(prometheus(read_status(tmp_path)))
    assert found["cuzk_up"] == 0 and found["cuzk_gpu_workers"] == 0 and "cuzk_status_age_seconds" not in found


def test_prometheus_escapes_labels(answer):
    answer["counters"]["completed_by_kind"]['a"b\\c\nd\ud800'] = 1
    assert r'cuzk_proofs_completed{proof_kind="a\"b\\c\nd?"} 1' in prometheus(answer)


# ---- table
def test_table(answer):
    lines = table(answer).splitlines()
    assert lines[0] == "state: fresh" and lines[1].startswith(f"process {os.getpid()}: fresh")
    assert re.fullmatch(rf"  W0  proving  {JOB} P1 +0\.\ds  pid {os.getpid()}", lines[2])
    assert re.fullmatch(rf"  W1  proving  A P0,P1 +0\.\ds  pid {os.getpid()}", lines[3])
    assert any(line.startswith(f"{JOB}  snap-2k  gpu  1/3") for line in lines)
    assert re.search(r"P0  done +synth - +gpu 1\.2s", table(answer))
    assert "no memory" in table(answer)


def test_table_says_what_a_job_waits_for(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.waiting("A", {"kind": "memory", "need": 5, "have": 3})
    tracker.waiting("B", {"kind": "read", "path": "/storage/s-t01000-17"})
    tracker.partition_failed("B", 0, "x\ny")
    assert "waiting for memory need 5 have 3 (0." in table(read_status(tmp_path))
    assert "waiting for read path /storage/s-t01000-17 (0." in table(read_status(tmp_path))
    assert "x y" in table(read_status(tmp_path))


def test_table_gives_the_terminal_nothing_to_act_on(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.job_started("\x1b[2J\ud800", "snap-2k", [0])
    text = table(read_status(tmp_path))
    assert "\x1b" not in text
    text.encode()


def test_table_of_an_old_and_a_new_process(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.close()
    assert "ended" in table(read_status(tmp_path)) and "absent" in table(read_status(tmp_path))
