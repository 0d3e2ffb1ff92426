"""`python -m tests.tiny.run PARAMS VALUE COUNT [STAGE]`: prove one job; wait for ever in a stage, having said so.

Stages: loading, synthesis, gpu, verify, deliver; the last three after the first partition is kept. Prints the result.
"""
from __future__ import annotations

import json
import sys
import time

from cuzk_cli.cli.main import leave
from cuzk_cli.kernels import runtime
from cuzk_cli.status import Tracker, Writer, status_folder
from tests import tiny


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
    verifier.verify_proof = wait_in("verify", verifier.verify_proof, 1)
    prover.Prover._deliver = wait_in("deliver", prover.Prover._deliver)
    tracker = Tracker(Writer(status_folder()))
    tracker.start()
    catch_signals()
    made = []

    def work() -> dict:
        made.append(prover.Prover(Options(params=params, workers=1), tracker, lambda text: print(text, file=sys.stderr, flush=True)))
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
