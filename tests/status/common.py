"""What the tests of the status share."""
import json

from cuzk_cli.status import Tracker, Writer

JOB = "snap-1000-17-0123456789ab"


class Kept:
    """A writer that keeps what it is given, as a file would: by value."""

    def __init__(self):
        self.documents = []

    def write(self, document):
        self.documents.append(json.loads(json.dumps(document, allow_nan=False)))

    @property
    def last(self):
        return self.documents[-1]


class Clock:
    """Moves when told, in either direction."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


def quick(folder, **more):
    return Writer(folder, fsync=False, **more)


def two_workers(writer=None, cls=Tracker, **more):
    """A tracker with W0, W1 and jobs A and B of two partitions."""
    tracker = cls(writer, **more)
    tracker.add_workers([(0, 0), (1, 0)])
    for job in ("A", "B"):
        tracker.job_started(job, "snap-2k", [0, 1])
    return tracker


def worker(document, number):
    return next(w for w in document["gpu_workers"] if w["worker_id"] == number)


def job(document, name):
    return next(j for j in document["pipelines"] if j["job_id"] == name)


def partition(document, name, index):
    return next(p for p in job(document, name)["partitions"] if p["index"] == index)


def shown(document, number):
    w = worker(document, number)
    return w["state"], w["current_job"], w["current_partition"]
