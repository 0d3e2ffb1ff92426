"""The command line with a prover that takes no time: `python fake_daemon.py ARGUMENTS` is `cuzk ARGUMENTS`.

FAKE_HOLDS: nothing is finished as long as a file of this name is there. FAKE_HANGS: closing does not end.
"""
from __future__ import annotations

import os
import sys
import threading
import time
import types

from tests.daemon import fake


class Prover(fake.Prover):
    """What the daemon makes."""

    def __init__(self, options, tracker, warn):
        super().__init__(tracker)
        self.options = options
        warn("a warning")
        hold = os.environ.get("FAKE_HOLDS")
        if hold:
            self.going.clear()
            threading.Thread(target=self._watch, args=(hold,), daemon=True).start()

    def _watch(self, hold: str) -> None:
        while os.path.exists(hold):
            time.sleep(0.02)
        self.going.set()

    def close(self) -> None:
        if os.environ.get("FAKE_HANGS"):
            time.sleep(60)
        super().close()


if __name__ == "__main__":
    module = types.ModuleType("cuzk_cli.prove.prover")
    module.Prover = Prover
    sys.modules["cuzk_cli.prove.prover"] = module
    from cuzk_cli.cli.main import run

    run()
