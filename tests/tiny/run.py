"""`python -m tests.tiny.run PARAMS VALUE COUNT [FAULT]`: prove one job, and print the result.

FAULT is one of
    loading, synthesis, gpu, verify, deliver    say so and wait there for ever; the last three after the first partition
                                                is kept
    corrupt:N       the device's result for the second partition is wrong, N times
    open:FOLDER, fsync:FOLDER    the disk is full for what is written in the folder of that name: when a file is made, or
                                 when it is to be on disk
    log:PATH        write down when each epoch has surely begun and when it has not yet begun to end
"""
from __future__ import annotations

import errno
import json
import os
import sys
import time
from pathlib import Path

from cuzk_cli.cli.main import leave
from cuzk_cli.kernels import runtime
from cuzk_cli.status import Tracker, Writer, status_folder
from tests import tiny


def corrupt(times: int, value: int) -> None:
    """Of the partition that proves `value`: points of the curve, but of another sum."""
    from cuzk_cli.prove import groth16

    original, left = groth16.gpu_prove_start, [None] * times

    def start(key, assignment, *lanes):
        running = original(key, assignment, *lanes)
        if left and int(assignment.inputs[1][0]) == value:
            left.pop()
            running.pending["l"] = running.pending["a"]
        return running

    groth16.gpu_prove_start = start


def full(when: str, name: str) -> None:
    """ENOSPC, in folders of this name."""
    def check(path) -> None:
        if name in Path(os.fsdecode(path)).parts[:-1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(path))

    if when == "open":
        sys.addaudithook(lambda event, given: event == "open" and isinstance(given[0], (str, bytes)) and
                         given[2] & os.O_CREAT and check(given[0]))
        return
    fsync = os.fsync

    def refuse(file) -> None:
        check(os.readlink(f"/proc/self/fd/{file if isinstance(file, int) else file.fileno()}"))
        fsync(file)

    os.fsync = refuse


def log_epochs(path: str) -> None:
    """Lines of [epoch, worker, began] and [epoch, worker, ends], by the clock that all processes share."""
    file, workers = open(path, "a", buffering=1), {}
    start, end = Tracker.partition_gpu_start, Tracker.partition_gpu_end

    def note(epoch: int, name: str) -> None:
        file.write(json.dumps({"epoch": epoch, "worker": workers[epoch], name: time.monotonic()}) + "\n")

    def logged_start(self, job_id, partition, worker_id, *more):
        epoch = start(self, job_id, partition, worker_id, *more)
        workers[epoch] = worker_id
        note(epoch, "began")
        return epoch

    def logged_end(self, epoch, *more):
        note(epoch, "ends")
        end(self, epoch, *more)

    Tracker.partition_gpu_start, Tracker.partition_gpu_end = logged_start, logged_end


def main() -> None:
    params, value, count, *stage = sys.argv[1:]
    runtime.setup("cpu")
    tiny.install()
    from cuzk_cli.cli.apart import Stopped, apart, catch_signals, within
    from cuzk_cli.prove import groth16, prover, verifier
    from cuzk_cli.prove.options import Options

    def wait_in(name: str, function, first: int = 0):
        """Let `first` calls pass."""
        passed = []

        def waiting(*arguments, **more):
            if stage == [name] and len(passed) >= first:
                print(name, flush=True)
                time.sleep(600)
            passed.append(None)
            return function(*arguments, **more)
        return waiting

    tiny.Request.prepare = wait_in("loading", tiny.Request.prepare)
    tiny.Prepared.witness = wait_in("synthesis", tiny.Prepared.witness, 1)
    groth16.gpu_prove_finish = wait_in("gpu", groth16.gpu_prove_finish, 1)
    fault, _, of = "".join(stage).partition(":")
    if fault == "corrupt":
        corrupt(int(of), int(value) + 1)
    elif fault in ("open", "fsync"):
        full(fault, of)
    elif fault == "log":
        log_epochs(of)
    verifier.verify_proof = wait_in("verify", verifier.verify_proof, 1)
    prover.Prover._deliver = wait_in("deliver", prover.Prover._deliver)
    say = lambda text: print(text, file=sys.stderr, flush=True)
    tracker = Tracker(Writer(status_folder(), warn=say))
    tracker.start()
    catch_signals()
    made = []

    def work() -> dict:
        made.append(prover.Prover(Options(params=params, workers=1), tracker, say))
        return made[0].submit(tiny.Request(int(value), int(count))).result.result()

    try:
        print(json.dumps(apart(work)), flush=True)
    except Stopped as stopped:
        within(1.0, *[one.close for one in made])
        within(1.0, tracker.close)
        print(f"stopped by {stopped.name}", flush=True)
    finally:
        within(1.0, *[one.close for one in made])
        within(1.0, tracker.close)


if __name__ == "__main__":
    main()
    leave(0)        # as `cuzk` ends: threads that still work are not waited for
