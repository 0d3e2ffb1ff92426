"""`cuzk` whose fixed-base multiplication says that it works, and then takes its time: python slow_base.py ARGUMENTS."""
import sys
import time

import numpy as np

from cuzk_cli.params import generate


def multiply(width):
    def slowly(words):
        print("multiplying", file=sys.stderr, flush=True)
        time.sleep(60)
        return np.zeros((len(words), width), np.uint8)
    return slowly


if __name__ == "__main__":
    from cuzk_cli.cli.main import run

    first = [lambda words: np.zeros((len(words), 96), np.uint8)]        # the key; the vectors are slow
    generate.device_fixed_base = lambda: generate.FixedBase(
        lambda words: (first.pop() if first else multiply(96))(words), multiply(192), 1 << 17)
    run()
