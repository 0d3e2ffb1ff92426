"""Faults of a real run of a small circuit, from outside: kills, signals, folders that cannot be written.

Nothing proved is lost, nothing false is shown, nothing is left behind: no process, no lock, no shared memory.
"""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzk_cli.params.format import read_verifying_key
from cuzk_cli.prove import verifier
from cuzk_cli.status import read_status, schema
from tests import tiny

ROOT = Path(__file__).parents[2]
STAGES = ("loading", "synthesis", "gpu", "verify", "deliver")


@pytest.fixture(scope="session")
def params(tmp_path_factory):
    """Parameters of the small circuit, made by another process."""
    folder = tmp_path_factory.mktemp("tiny") / "params"
    code = ("import sys, pathlib; from cuzk_cli.kernels import runtime; runtime.setup('cpu'); from tests import tiny; "
            "tiny.install(); tiny.generate(pathlib.Path(sys.argv[1]))")
    subprocess.run([sys.executable, "-c", code, folder], cwd=ROOT, check=True)
    return folder


class World:
    """Runs of one user."""

    def __init__(self, tmp_path, params):
        self.params, self.state = params, tmp_path / "state"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.state), "PYTHONPATH": str(ROOT)}
        self.environment.pop("XDG_RUNTIME_DIR", None)
        self.environment.pop("CUZK_STATUS_DIR", None)
        self.running: list[subprocess.Popen] = []

    def start(self, value: int, count: int, stage: str = "") -> subprocess.Popen:
        arguments = [self.params, str(value), str(count), *([stage] if stage else [])]
        process = subprocess.Popen([sys.executable, "-m", "tests.tiny.run", *arguments], cwd=ROOT, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def result(self, value: int, count: int) -> dict:
        """Of a run to its end, which is verified again here."""
        out, error = self.start(value, count).communicate(timeout=120)
        found = json.loads(out)
        assert "Traceback" not in error
        if found["ok"]:
            key = verifier.prepare(read_verifying_key(self.params / "v28-tiny.vk"))
            inputs = [tiny.Prepared(tiny.Request(value, count)).public_inputs(k) for k in range(count)]
            assert all(verifier.verify_partitions(key, inputs, bytes.fromhex(found["proof"])))
        return found

    def status(self) -> dict:
        return read_status(self.state / "cuzk")

    def locks(self) -> list[str]:
        return os.listdir(self.state / "cuzk" / "locks")


@pytest.fixture
def world(tmp_path, params):
    made = World(tmp_path, params)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.wait()


def children(pid: int) -> list[int]:
    """Of all threads of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(p) for p in (task / "children").read_text().split()]
        except OSError:         # the thread is gone
            continue
    return found


def kept(world) -> bool:
    """Whether a partition of a journal appears: after a compilation, perhaps on a machine with other work."""
    for _ in range(2400):
        if list(world.state.glob("cuzk/journal/*/*.json")):
            return True
        time.sleep(0.05)
    return False


def gone(pids: list[int]) -> bool:
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("stage", [pytest.param(s, marks=[] if s == "gpu" else pytest.mark.slow) for s in STAGES])
def test_a_kill_loses_at_most_what_is_in_flight(world, stage):
    segments = set(os.listdir("/dev/shm"))
    process = world.start(7, 4, stage)
    assert process.stdout.readline().strip() == stage
    if stage in ("gpu", "verify"):
        assert kept(world), "the first partition is kept while the second waits"
    workers = children(process.pid)
    assert workers or stage == "loading"
    process.kill()
    process.wait()
    assert gone(workers) and set(os.listdir("/dev/shm")) <= segments
    answer = world.status()
    assert answer["state"] == "dead" and not answer["ok"] and not answer["gpu_workers"]
    assert all(job["finished"] and not job["ok"] for job in answer["pipelines"]) or stage == "deliver"
    found = world.result(7, 4)
    assert found["ok"] and not world.locks()
    expected = {"loading": [], "synthesis": None, "gpu": None, "verify": None, "deliver": [0, 1, 2, 3]}[stage]
    if expected is None:
        assert 1 <= len(found["resumed_partitions"]) < 4 if stage != "synthesis" else len(found["resumed_partitions"]) < 4
    else:
        assert found["resumed_partitions"] == expected
    assert not list(world.state.glob("cuzk/journal/*/*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_within_seconds_and_keeps_what_is_finished(world, number):
    process = world.start(9, 3, "verify")
    assert process.stdout.readline().strip() == "verify"
    workers, began = children(process.pid), time.monotonic()
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert time.monotonic() - began < 5 and number.name in out and "Traceback" not in error
    assert gone(workers) and not world.locks()
    answer = world.status()
    assert answer["processes"][0]["state"] == "ended" and answer["state"] == "absent"
    assert world.result(9, 3)["resumed_partitions"]


@pytest.mark.slow
def test_the_same_job_twice(world):
    process = world.start(11, 2, "gpu")
    assert process.stdout.readline().strip() == "gpu"
    found = world.result(11, 2)
    assert found["exit"] == 15 and str(process.pid) in found["errors"][0]["message"]
    assert world.result(12, 1)["ok"]        # another one is not kept out


@pytest.mark.slow
def test_a_killed_synthesis_worker_costs_nothing(world):
    process, killed = world.start(14, 6), None
    while process.poll() is None and killed is None:
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
            killed = pid
        time.sleep(0.02)
    out, error = process.communicate(timeout=120)
    assert json.loads(out)["ok"] and f"synthesis worker {killed} ended by signal 9 (SIGKILL)" in error


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["journal", "locks", "status"])
def test_a_folder_that_cannot_be_written_is_one_warning(world, broken):
    """A plain file stands where the folder would be; proving goes on."""
    if broken == "status":
        world.environment["CUZK_STATUS_DIR"] = str(world.state / "file" / "status")
        world.state.mkdir(parents=True)
        (world.state / "file").write_text("")
    else:
        (world.state / "cuzk").mkdir(parents=True)
        (world.state / "cuzk" / broken).write_text("")
    process = world.start(15, 2)
    out, error = process.communicate(timeout=120)
    assert json.loads(out)["ok"] and "Traceback" not in error
    assert sum(broken in line for line in error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["open", "fsync"])
@pytest.mark.parametrize("folder", ["journal", "locks", "status"])
def test_a_full_disk_is_one_warning(world, folder, when):
    """Proving goes on, and nothing half written stays. Locks are of no length: only making one can fail."""
    if (folder, when) == ("locks", "fsync"):
        return
    world.environment["CUZK_STATUS_DIR"] = str(world.state / "status")
    process = world.start(16, 3, f"{when}:{folder}")
    out, error = process.communicate(timeout=120)
    assert json.loads(out)["ok"] and "Traceback" not in error
    (warning,) = [line for line in error.splitlines() if folder in line]
    assert "No space left on device" in warning and "proving goes on" in warning
    left = [path for path in world.state.rglob("*") if path.is_file()]
    assert left == ([] if folder == "status" else list((world.state / "status").glob("status-*.json")))


@pytest.mark.slow
def test_a_corrupted_device_result_is_tried_once_more(world):
    """Once: it is proved again. Twice: the job fails and names the partition; the other partitions are kept."""
    process = world.start(17, 3, "corrupt:1")
    out, error = process.communicate(timeout=120)
    assert json.loads(out)["ok"] and "Traceback" not in error
    key = verifier.prepare(read_verifying_key(world.params / "v28-tiny.vk"))
    inputs = [tiny.Prepared(tiny.Request(17, 3)).public_inputs(k) for k in range(3)]
    assert all(verifier.verify_partitions(key, inputs, bytes.fromhex(json.loads(out)["proof"])))
    assert json.loads(out)["attempts"] == 2
    counters = ended(world, process)["counters"]
    assert (counters["epochs_retry"], counters["epochs_done"], counters["epochs_failed"]) == (1, 3, 0)

    process = world.start(18, 3, "corrupt:2")
    out, error = process.communicate(timeout=120)
    found = json.loads(out)
    assert found["exit"] == 14 and not found["ok"] and found["proof"] is None and "Traceback" not in error
    assert "partition 1 of tiny-" in found["errors"][0]["message"]
    status = ended(world, process)
    counters, (job,) = status["counters"], status["pipelines"]
    assert counters["epochs_retry"] == 1 <= counters["epochs_failed"] and counters["total_failed"] == 1
    assert [e["outcome"] for e in status["epochs"] if e["partition"] == 1] == ["retry", "failed"]
    assert job["partitions"][1]["state"] == "failed" and not job["ok"]
    assert 0 in world.result(18, 3)["resumed_partitions"]


def ended(world, process) -> dict:
    """The last that a process wrote."""
    return json.loads((world.state / "cuzk" / f"status-{process.pid}.json").read_text())


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_the_status_agrees_with_the_event_log(world, tmp_path, seconds):
    """Read 200 times a second while a real run works: whole documents, and whoever proves by the log proves in them."""
    log = tmp_path / "log"
    log.write_text("")
    process = world.start(19, 400, f"log:{log}")
    while "ends" not in log.read_text():        # what is compiled for the first partition is there
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    path = world.state / "cuzk" / f"status-{process.pid}.json"
    seen, documents, next_read = [], set(), time.monotonic()
    last = next_read + seconds
    while next_read < last and process.poll() is None:
        time.sleep(max(next_read - time.monotonic(), 0))
        next_read += 1 / 200
        document, before = path.stat(), time.monotonic()
        answer = world.status()
        seen.append((before, time.monotonic(), answer, (document.st_ino, document.st_mtime_ns) not in documents))
        documents.add((document.st_ino, document.st_mtime_ns))
    process.kill()
    process.wait()
    checked, epochs = 0, {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        epochs.setdefault(entry.pop("epoch"), {"ends": float("inf")}).update(entry)
    for before, after, answer, new in seen:
        assert not new or schema.mismatch(answer, schema.ANSWER) is None
        assert answer["state"] == "fresh", answer["reasons"]
        shown = {w["worker_id"]: w for w in answer["gpu_workers"]}
        for number, epoch in epochs.items():
            if epoch["began"] < before and after < epoch["ends"]:
                worker = shown[epoch["worker"]]
                assert worker["state"] == "proving" and number in worker["open_epochs"]
                checked += 1
    assert len(epochs) > seconds and len(documents) > seconds and checked > 20 * seconds, (len(epochs), checked)
