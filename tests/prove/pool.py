"""A synthesis pool that answers at once, by no process: the assignment of a witness is the witness."""
from concurrent.futures import Future
from types import SimpleNamespace


class Pool:
    """The interface of cuzk_cli.prove.synthesis.SynthesisPool."""

    def __init__(self, workers, warn):
        pass

    def submit(self, kind, size, witness, started):
        future = Future()
        started()
        future.set_result(SimpleNamespace(assignment=witness, milliseconds=1.0))
        return future

    def pids(self):
        return []

    def close(self):
        pass
