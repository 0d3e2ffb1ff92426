"""What the prover is doing, for people and monitoring: tracker ─► file ─► reader. Standard library only."""
from .reader import read_status
from .tracker import Tracker
from .writer import Writer, status_folder

__all__ = ["Tracker", "Writer", "read_status", "status_folder"]
