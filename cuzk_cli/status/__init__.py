"""What the provers are doing, for people and monitoring. Standard library only: neither NumPy nor JAX is imported.

    prove/ ─► tracker ─► writer ─► status-<pid>.json ─► reader ─► table, check (Nagios), prometheus, JSON
              state: the rules                           schema: what the two agree on
"""
from .reader import STALE_AFTER, read_status
from .tracker import Tracker
from .writer import Writer, status_folder

__all__ = ["STALE_AFTER", "Tracker", "Writer", "read_status", "status_folder"]
