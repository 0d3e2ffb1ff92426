"""`python -m tests.tiny.daemon ARGUMENTS` is `cuzk daemon ARGUMENTS` that proves the small circuit on the CPU.

A WINNING_POST is one of it: value sector_number, partition_index + 1 partitions.
"""
from __future__ import annotations

import sys

from cuzk_cli.kernels import runtime
from tests import tiny


def main() -> None:
    runtime.setup("cpu")
    tiny.install()
    from cuzk_cli.cli.main import run
    from cuzk_cli.daemon import requests

    requests._MESSAGES["WINNING_POST"] = lambda message, problems: tiny.Request(message.sector_number,
                                                                               message.partition_index + 1)
    for names in (requests.QUEUES, requests._CIRCUITS):
        names[tiny.KIND] = tiny.KIND
    sys.argv[1:1] = ["daemon"]
    run()


if __name__ == "__main__":
    main()
