"""Progress on standard error: lines and a heartbeat, JSON lines, bars on a terminal only."""
import io
import json
import os
import pty
import subprocess
import sys
import termios

import pytest

from cuzk_cli.cli import progress
from cuzk_cli.cli.progress import Count, Progress
from cuzk_cli.status import Tracker

from .common import FAKE, environment

JOB = "snap-1000-1-0123456789ab"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when told."""
    class Clock:
        now = 1000.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def tracker():
    made = Tracker()
    made.add_workers([(0, 0)])
    made.job_started(JOB, "snap", [0, 1])
    return made


def course(tracker, shown):
    """P0 is synthesised, proved and done; P1 waits."""
    shown.update(tracker.snapshot())
    tracker.partition_synthesis_start(JOB, 0)
    shown.update(tracker.snapshot())
    tracker.partition_synthesis_end(JOB, 0, True, 400.0)
    shown.update(tracker.snapshot())
    epoch = tracker.partition_gpu_start(JOB, 0, 0)
    shown.update(tracker.snapshot())
    shown.update(tracker.snapshot())
    tracker.partition_gpu_end(epoch, "done", 20500.0)
    shown.update(tracker.snapshot())
    shown.close()


def test_plain_is_a_line_for_each_change_of_state(tracker, capsys):
    course(tracker, Progress("plain"))
    assert capsys.readouterr().err.splitlines() == [
        f"{JOB}: partition 0 synthesizing, 0/2 done", f"{JOB}: partition 0 synth_done (0.4 s), 0/2 done",
        f"{JOB}: partition 0 gpu, 0/2 done", f"{JOB}: partition 0 done (20.5 s), 1/2 done"]


def test_json_is_an_object_for_each_change_of_state(tracker, capsys):
    course(tracker, Progress("json"))
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(f["partition"], f["state"], f["partitions_done"]) for f in found] == [
        (0, "pending", 0), (1, "pending", 0), (0, "synthesizing", 0), (0, "synth_done", 0), (0, "gpu", 0),
        (0, "done", 1)]
    assert all(f["event"] == "partition" and f["job_id"] == JOB and f["total_partitions"] == 2 for f in found)


def test_none_is_silent(tracker, capsys):
    course(tracker, Progress("none"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_heartbeat_comes_when_nothing_else_was_said(tracker, clock, capsys, mode):
    shown = Progress(mode)
    epoch = tracker.partition_gpu_start(JOB, 0, 0)
    shown.update(tracker.snapshot())
    capsys.readouterr()
    for seconds in (9.0, 2.0, 9.0, 2.0):
        clock.now += seconds
        shown.update(tracker.snapshot())
    beats = capsys.readouterr().err.splitlines()
    assert len(beats) == 2
    if mode == "json":
        assert json.loads(beats[0]) == {"event": "heartbeat", "seconds": 11, "gpu_workers": [
            {"worker_id": 0, "job_id": JOB, "partition": 0}]}
    else:
        assert beats == [f"11 s: W0 {JOB}/P0", f"22 s: W0 {JOB}/P0"]
    clock.now += 9
    tracker.partition_gpu_end(epoch, "done", 1.0)
    shown.update(tracker.snapshot())
    capsys.readouterr()
    clock.now += 9
    shown.update(tracker.snapshot())
    assert capsys.readouterr().err == ""


def test_heartbeat_tells_what_goes_on(tracker, clock, capsys):
    shown = Progress("plain")
    shown.update(tracker.snapshot())
    for prepare, said in [(lambda: None, "waiting"), (lambda: tracker.partition_synthesis_start(JOB, 1), "synthesis"),
                          (lambda: tracker.partition_gpu_start(JOB, None, 0), f"W0 {JOB}")]:
        prepare()
        shown.update(tracker.snapshot())
        capsys.readouterr()
        clock.now += 11
        shown.update(tracker.snapshot())
        assert capsys.readouterr().err.splitlines()[-1].endswith(f" s: {said}")


def test_auto_is_bars_on_a_terminal_only(tracker, monkeypatch):
    plain, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", plain)
    course(tracker, Progress("auto"))
    assert len(plain.getvalue().splitlines()) == 4 and "\r" not in plain.getvalue()
    monkeypatch.setattr(sys, "stderr", terminal)
    tracker.job_started(JOB, "snap", [0, 1])
    course(tracker, Progress("auto"))
    assert JOB in terminal.getvalue() and "1/2" in terminal.getvalue() and "P0:gpu" in terminal.getvalue()


@pytest.mark.parametrize("stderr", [None, "closed"])
@pytest.mark.parametrize("mode", ["auto", "plain", "json"])
def test_a_closed_standard_error_is_no_failure(tracker, monkeypatch, stderr, mode):
    if stderr == "closed":
        stderr = io.StringIO()
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    course(tracker, Progress(mode))
    count = Count(mode, "points")
    count(1, 2)
    count.close()


def test_count(clock, capsys):
    for mode, lines in [("plain", ["7 of 9 points"]), ("none", []),
                        ("json", ['{"event": "count", "unit": "points", "done": 7, "total": 9}'])]:
        count = Count(mode, "points")
        count(1, 9)
        clock.now += 6
        count(7, 9)
        count(8, 9)
        count.close()
        assert capsys.readouterr().err.splitlines() == lines


def test_count_has_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    count = Count("auto", "points")
    for done in (1, 9):
        count(done, 9)
    count.close()
    assert "9/9" in terminal.getvalue()


@pytest.mark.parametrize("mode, bars", [("auto", True), ("plain", False), ("none", False)])
def test_a_real_terminal(tmp_path, mode, bars):
    """Standard error is a terminal, standard output a pipe: bars there, the object here."""
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (24, 120))
    process = subprocess.Popen([*FAKE, "prove", "snap", "s-t01000-1", "--progress", mode], stdout=subprocess.PIPE,
                               stderr=side, cwd=tmp_path, env=environment(tmp_path))
    os.close(side)
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:         # the other side is gone
        pass
    finally:
        os.close(terminal)
    assert json.load(process.stdout)["ok"] and process.wait(30) == 0
    process.stdout.close()
    assert (b"\rsnap-1000-1-000000000000: 100%" in said) == bars, said
    assert bool(said) == (mode != "none")
