"""Compiled helpers: where their cache lives, and that they work without one."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cuzk_cli
from cuzk_cli.protocol.compiled import njit, numba

PACKAGE = Path(cuzk_cli.__file__).parent


def cache_folder(package_parent: Path, home: Path) -> str:
    """The cache folder that a new process of the package under `package_parent` chooses."""
    environment = {**os.environ, "PYTHONPATH": str(package_parent), "XDG_CACHE_HOME": str(home)}
    environment.pop("NUMBA_CACHE_DIR", None)
    code = "import os; from cuzk_cli.protocol import compiled; print(os.environ['NUMBA_CACHE_DIR'])"
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_change_of_the_arithmetic_changes_the_cache_folder(tmp_path):
    copy = tmp_path / "cuzk_cli"
    (copy / "protocol").mkdir(parents=True)
    for name in ("__init__.py", "protocol/__init__.py", "protocol/compiled.py", "protocol/fr.py"):
        shutil.copy(PACKAGE / name, copy / name)
    before = cache_folder(tmp_path, tmp_path / "home")
    assert before.startswith(str(tmp_path / "home" / "cuzk" / "numba"))
    assert cache_folder(tmp_path, tmp_path / "home") == before
    with open(copy / "protocol" / "fr.py", "a") as file:
        file.write("# changed\n")
    assert cache_folder(tmp_path, tmp_path / "home") != before


def test_compiles_where_numba_finds_no_place_for_its_cache():
    # the same refusal as with read-only folders: no file, hence no folder beside it, and none that numba accepts
    scope: dict = {}
    exec(compile("def successor(x): return x + 1", "<nowhere>", "exec"), scope)
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(scope["successor"], cache=True)
    assert njit(scope["successor"])(2) == 3
