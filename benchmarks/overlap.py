"""How busy the device is kept: the time in which no dispatched program is unfinished, from the first to the last.

    python benchmarks/overlap.py --sector fixtures/sectors/2KiB/s-t01000-1 --partitions 4

The same partition is queued so many times, warm. Every program is watched from its dispatch until its result is there. The
limit is 3 %. It also prints what the status file cost: the time spent in its writes over that of all proofs.
"""
from __future__ import annotations

import argparse
import json
import queue
import tempfile
import threading
import time

from cuzk_cli.kernels import runtime


class Watch:
    """In place of `jax.jit`: notes when programs are dispatched and when they are done."""

    def __init__(self, jit):
        self._jit, self._outputs, self.spans = jit, queue.SimpleQueue(), []
        threading.Thread(target=self._wait, daemon=True).start()

    def __call__(self, function, **options):
        compiled = self._jit(function, **options)

        def dispatch(*arguments):
            started = time.perf_counter()
            out = compiled(*arguments)
            self._outputs.put((started, out))
            return out
        return dispatch

    def _wait(self) -> None:
        import jax

        while (item := self._outputs.get()) is not None:
            started, out = item
            try:
                jax.block_until_ready(out)
            except RuntimeError:            # given to the next program, which is watched
                continue
            finally:
                del item, out
            self.spans.append((started, time.perf_counter()))

    def busy(self) -> tuple[float, float]:
        """(seconds in which a program is unfinished, seconds from the first dispatch to the last end)."""
        total, spans = 0.0, sorted(self.spans)
        first = end = spans[0][0]
        for start, stop in spans:
            total += max(stop - max(start, end), 0)
            end = max(end, stop)
        return total, end - first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sector", default="fixtures/sectors/2KiB/s-t01000-1")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    runtime.setup(given.device)
    import jax

    watch = jax.jit = Watch(jax.jit)
    from cuzk_cli.prove import snap
    from cuzk_cli.prove.engine import Engine, Job
    from cuzk_cli.prove.options import Options
    from cuzk_cli.status import Tracker, Writer

    writing = []

    class Timed(Writer):
        def write(self, document: dict) -> None:
            started = time.perf_counter()
            super().write(document)
            writing.append(time.perf_counter() - started)

    prepared = snap.Request(given.sector).prepare()
    located = Options(test_params=True).located("snap", prepared.size)
    with tempfile.TemporaryDirectory() as folder:
        tracker = Tracker(Timed(folder))
        tracker.start()
        engine = Engine(tracker, 1)

        def prove(name: str, count: int) -> None:
            jobs = [Job(f"{name}-{i}", "snap", prepared.size.bytes, prepared.partitions[:1], prepared.witness,
                        prepared.public_inputs, located) for i in range(count)]
            for job in [engine.submit(job) for job in jobs]:
                job.result()

        prove("warm", 2)
        writing.clear()
        watch.spans.clear()
        started = time.perf_counter()
        prove("timed", given.partitions)
        seconds = time.perf_counter() - started
        executing, span = watch.busy()
        engine.close()
        tracker.close()
    print(json.dumps({
        "partitions": given.partitions, "seconds": round(seconds, 2), "span_seconds": round(span, 2),
        "unfinished_seconds": round(executing, 2), "idle_percent": round(100 * (1 - executing / span), 2),
        "status_writes": len(writing), "status_percent": round(100 * sum(writing) / seconds, 3)}))


if __name__ == "__main__":
    main()
