"""Many threads report, readers in another thread and in another process look on."""
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

from cuzk_cli.status import Tracker, read_status, schema

from .common import Kept, quick, worker

ROOT = Path(__file__).parents[2]


class Log:
    """What has surely begun and not yet begun to end, by worker."""

    def __init__(self):
        self.lock, self.open = threading.Lock(), {}

    def proving(self):
        with self.lock:
            return dict(self.open)


def report(tracker, log, worker_id, seed, rounds, finalizers):
    """One worker: at most two partitions open, ended late and in any order by the finalizers."""
    rng = random.Random(seed)
    for i in range(rounds):
        job = f"{worker_id}-{i % 5}"
        epoch = tracker.partition_gpu_start(job, rng.randrange(3), worker_id)
        with log.lock:
            log.open[epoch] = worker_id
        finalizers.append((epoch, rng.choice(["done", "failed", "retry"])))
        while len(finalizers) > 1 or (i == rounds - 1 and finalizers):
            epoch, outcome = finalizers.pop(rng.randrange(len(finalizers)))
            with log.lock:
                log.open.pop(epoch, None)
            for _ in range(rng.choice([1, 1, 2])):
                tracker.partition_gpu_end(epoch, outcome, 1.0)


def run_workers(tracker, log, workers, rounds):
    tracker.add_workers([(i, 0) for i in range(workers)])
    for i in range(workers):
        for k in range(5):
            tracker.job_started(f"{i}-{k}", "snap-2k", [0, 1, 2])
    threads = [threading.Thread(target=report, args=(tracker, log, i, i, rounds, [])) for i in range(workers)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_lose_nothing():
    writer = Kept()
    tracker = Tracker(writer)
    for thread in run_workers(tracker, Log(), 6, 60):
        thread.join()
    counters = tracker.snapshot()["counters"]
    assert counters["epochs_opened"] == 360 and counters["epochs_open"] == 0
    assert counters["epochs_done"] + counters["epochs_failed"] + counters["epochs_retry"] == 360
    assert {w["state"] for w in tracker.snapshot()["gpu_workers"]} == {"idle"}
    newest = [document["last_epoch"] for document in writer.documents]
    assert newest == sorted(newest)         # what is written last is newest
    assert len(writer.documents) == 30 + 360 * 2 + counters["ignored_ends"]


def test_every_worker_that_is_proving_by_the_log_is_proving_in_the_file(tmp_path):
    log = Log()
    tracker = Tracker(quick(tmp_path))
    tracker.start()
    threads = run_workers(tracker, log, 4, 120)
    reads = 0
    while any(thread.is_alive() for thread in threads) or reads < 10:
        before = log.proving()
        answer = read_status(tmp_path)
        after = log.proving()
        wrong = schema.mismatch(answer, schema.ANSWER)
        assert wrong is None, wrong
        assert answer["state"] == "fresh", answer["reasons"]
        for epoch in before.keys() & after.keys():      # open from before the read until after it
            assert epoch in worker(answer, before[epoch])["open_epochs"]
            assert worker(answer, before[epoch])["state"] == "proving"
        reads += 1
    for thread in threads:
        thread.join()
    tracker.close()
    assert {w["open_epochs"] == [] for w in tracker.snapshot()["gpu_workers"]} == {True}


READER = """
import json, os, sys
path, seen = sys.argv[1], 0
print("ready", flush=True)
last = False
while not last:
    last = os.path.exists(sys.argv[2])
    with open(path, "rb") as file:
        data = file.read()
    document = json.loads(data)
    assert data.endswith(b"\\n") and document["counters"]["epochs_opened"] >= seen
    seen = document["counters"]["epochs_opened"]
print(seen)
"""


def test_reader_in_another_process_sees_only_whole_documents(tmp_path):
    """Documents of very different lengths replace each other under it."""
    tracker = Tracker(quick(tmp_path))
    tracker.start()
    path, stop = tmp_path / f"status-{os.getpid()}.json", tmp_path / "stop"
    child = subprocess.Popen([sys.executable, "-c", READER, path, stop], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert child.stdout.readline() == b"ready\n"
        for i in range(150):
            tracker.job_started("A", "snap-2k", list(range(1 + 97 * (i % 3))))
            for epoch in [tracker.partition_gpu_start("A", None, 0), tracker.partition_gpu_start("A", 0, 1)]:
                tracker.partition_gpu_end(epoch, "failed")
        tracker.close()
        stop.touch()
        seen, _ = child.communicate(timeout=60)
        assert child.returncode == 0 and json.loads(seen) == 300
    finally:
        child.kill()
        child.wait()
