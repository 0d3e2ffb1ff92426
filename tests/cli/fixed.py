"""The published vectors that these tests use."""
import json
import shutil
from pathlib import Path

from .common import ROOT

FIXTURES = ROOT / "fixtures"
STORAGE = FIXTURES / "sectors" / "2KiB"
SECTOR, OTHER = STORAGE / "s-t01000-1", STORAGE / "s-t01000-2"
VANILLA = STORAGE / "update-cache" / "s-t01000-1" / "snap-vproof.json"
FACTS = json.loads((STORAGE / "s-t01000-1.json").read_text())
PARAMS = FIXTURES / "params"
VK = next(PARAMS.glob("v28-empty-sector-update-*.vk"))
PROOF = bytes.fromhex(json.loads((FIXTURES / "proofs" / "proof-snap.json").read_text())["proofs"][0]["proof"])


def commitments(**changes) -> list[str]:
    """--comm-r-old X --comm-r-new X --comm-d-new X --sector-size 2KiB."""
    found = {name: FACTS[name] for name in ("comm_r_old", "comm_r_new", "comm_d_new")} | changes
    options = [a for name, value in found.items() for a in ("--" + name.replace("_", "-"), value)]
    return [*options, "--sector-size", "2KiB"]


def copy(folder: Path, storage: Path = STORAGE) -> Path:
    """A copy of a storage folder that may be damaged: the path of its first sector."""
    shutil.copytree(storage, folder)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / "s-t01000-1"
