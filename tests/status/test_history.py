"""Closed epochs stay in the document for an hour, so that a page can show which worker did which partition when."""
import json

import jsonschema

from cuzk_cli.status import Tracker, read_status, schema
from cuzk_cli.status.state import KEEP_EPOCHS, KEEP_EPOCHS_SECONDS

from .common import Clock, Kept, quick, two_workers


def history(document):
    return [(e["job_id"], e["partition"], e["worker_id"], e["outcome"]) for e in document["epochs"]]


def test_closed_epochs_are_listed_in_the_order_of_their_ends():
    writer, clock, monotonic = Kept(), Clock(), Clock(100.0)
    tracker = two_workers(writer, clock=clock, monotonic=monotonic)
    first = tracker.partition_gpu_start("A", 0, 0)
    second = tracker.partition_gpu_start("B", 1, 1)
    monotonic.now, clock.now = 130.0, clock.now + 30.0
    tracker.partition_gpu_end(second, "retry")
    assert history(writer.last) == [("B", 1, 1, "retry")]           # what is open is the worker's
    tracker.partition_gpu_end(first, "done", 1234.5)
    tracker.partition_gpu_end(first, "failed")                      # counted, no second entry
    assert history(writer.last) == [("B", 1, 1, "retry"), ("A", 0, 0, "done")]
    entry = writer.last["epochs"][1]
    assert entry["gpu_ms"] == 1234.5 and entry["partitions"] == [0] and entry["epoch"] == first
    assert entry["ended_at_unix"] == clock.now and entry["started_at_unix"] == clock.now - 30.0


def test_all_partitions_as_one_piece():
    writer = Kept()
    tracker = two_workers(writer)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", None, 0), "done", others={1: "failed"})
    assert writer.last["epochs"][0]["partition"] is None and writer.last["epochs"][0]["partitions"] == [0, 1]


def test_bounded_in_number_and_time():
    monotonic = Clock(0.0)
    tracker = two_workers(None, monotonic=monotonic)
    for _ in range(KEEP_EPOCHS + 5):
        tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "retry")
    numbers = [e["epoch"] for e in tracker.snapshot()["epochs"]]
    assert len(numbers) == KEEP_EPOCHS and numbers == sorted(numbers)
    monotonic.now = KEEP_EPOCHS_SECONDS
    assert len(tracker.snapshot()["epochs"]) == KEEP_EPOCHS
    monotonic.now += 0.1
    assert tracker.snapshot()["epochs"] == []


def test_a_clock_that_is_set_back_moves_all_times():
    writer, clock, monotonic = Kept(), Clock(), Clock(0.0)
    tracker = two_workers(writer, clock=clock, monotonic=monotonic)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done")
    monotonic.now, clock.now = 60.0, clock.now - 3000.0
    assert tracker.snapshot()["epochs"][0]["ended_at_unix"] == clock.now - 60.0


def test_the_reader_merges_what_ended_too(tmp_path):
    tracker = two_workers(quick(tmp_path))
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done")
    tracker.close()
    answer = read_status(tmp_path)
    jsonschema.Draft202012Validator(schema.ANSWER).validate(answer)
    assert history(answer) == [("A", 0, 0, "done")] and answer["epochs"][0]["pid"] and not answer["gpu_workers"]


def test_documents_without_the_key_are_read(tmp_path):
    class Older(Tracker):
        def snapshot(self):
            document = super().snapshot()
            del document["epochs"]
            return document

    two_workers(quick(tmp_path), cls=Older)
    answer = read_status(tmp_path)
    assert answer["state"] == "fresh" and answer["epochs"] == []


def test_closed_epochs_are_told_once_and_the_file_still_says_what_the_document_says(tmp_path, monkeypatch):
    documents, clock, monotonic = [], Clock(), Clock(100.0)
    writer = quick(tmp_path)
    monkeypatch.setattr(writer, "write", lambda document: (documents.append(document), type(writer).write(writer, document)))
    tracker = two_workers(writer, clock=clock, monotonic=monotonic)
    for partition in (0, 1, 0):
        monotonic.now, clock.now = monotonic.now + 1, clock.now + 1
        tracker.partition_gpu_end(tracker.partition_gpu_start("A", partition, 0), "retry")
        assert json.loads(writer.path.read_bytes()) == json.loads(json.dumps(documents[-1]))
    assert len(documents[-1]["epochs"]) == 3
    tracker.partition_gpu_start("B", 0, 1)
    assert all(new is old for new, old in zip(documents[-1]["epochs"], documents[-2]["epochs"], strict=True))


def test_a_clock_that_is_set_moves_the_times_of_the_past():
    writer, clock, monotonic = Kept(), Clock(), Clock(100.0)
    tracker = two_workers(writer, clock=clock, monotonic=monotonic)
    tracker.partition_gpu_end(tracker.partition_gpu_start("A", 0, 0), "done")
    before = writer.last["epochs"][0]["ended_at_unix"]
    clock.now -= 3600
    tracker.partition_gpu_start("A", 1, 0)
    assert writer.last["epochs"][0]["ended_at_unix"] == before - 3600
