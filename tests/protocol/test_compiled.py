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


@pytest.mark.parametrize("damage", [
    lambda data: os.urandom(len(data)),
    *(pytest.param(damage, marks=pytest.mark.slow) for damage in (
        lambda data: b"", lambda data: data[:len(data) // 2], lambda data: bytes([data[0] ^ 1]) + data[1:]))])
def test_a_damaged_cache_costs_a_compilation(tmp_path, damage):
    code = ("from cuzk_cli.protocol import poseidon; import numpy as np; "
            "print(poseidon.poseidon_batch(np.ones((1, 2, 4), np.uint64)).tolist())")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}

    def run() -> str:
        return subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True,
                              check=True).stdout

    expected, files = run(), [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    assert run() == expected
