"""The user's state folder, where journals and locks are."""
from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """`${XDG_STATE_HOME:-~/.local/state}/cuzk`."""
    parent = os.environ.get("XDG_STATE_HOME")
    return (Path(parent) if parent else Path(os.path.expanduser("~")) / ".local" / "state") / "cuzk"
