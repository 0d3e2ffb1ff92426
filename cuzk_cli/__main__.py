"""`python -m cuzk_cli` and `cuzk`. Signals are answered from the first moment: what is imported takes a while."""
from __future__ import annotations

import os
import signal


def _end(number, frame) -> None:
    try:
        os.write(2, f"cuzk: stopped by {signal.Signals(number).name}\n".encode())
    except OSError:
        pass
    os._exit(128 + number)


def run() -> None:
    """Entry point of `cuzk` and `jcuzk`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    from .cli.main import run as run_commands

    run_commands()


if __name__ == "__main__":
    run()
