"""The quotient by slabs, in memory and on disk: the same words as by whole arrays, for slabs of every shape."""
import os
import random

import jax
import numpy as np
import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.kernels import slabs
from cuzk_cli.kernels.matrix import InMemory, OnDisk
from cuzk_cli.kernels.quotient import plan, quotient

from .test_quotient import HYBRID, INT32, KINDS, P, rows


def case(log_m: int, kind: str):
    rng = random.Random(log_m)
    n = (1 << log_m) - (kind == "mixed")
    a, b = ([KINDS[kind](rng) for _ in range(n)] for _ in range(2))
    return [rows(v) for v in (a, b, [x * y % P for x, y in zip(a, b)])]


@pytest.mark.parametrize("log_m, kind, field, slab", [
    (6, "random", HYBRID, 1 << 5), (9, "mixed", HYBRID, 1 << 7), (9, "largest", HYBRID, 1 << 20),
    pytest.param(9, "mixed", INT32, 1 << 7, marks=pytest.mark.slow)])
def test_the_same_as_by_whole_arrays(log_m, kind, field, slab):
    values = case(log_m, kind)
    found = slabs.plan(plan(log_m, field), slab).run(*values)
    assert len(found) == 1 << log_m and np.array_equal(found[:-1], quotient(*values, log_m, field))


@pytest.mark.parametrize("devices", [1, 2])
def test_on_disk_and_devices(tmp_path, devices):
    values, log_m = case(9, "mixed"), 9
    by_slabs = slabs.plan(plan(log_m, devices=tuple(jax.devices()[:devices])), 1 << 7)
    made = []

    def new(*size):
        made.append(OnDisk(*size, tmp_path))
        return made[-1]

    found = by_slabs.run(*values, new)
    assert np.array_equal(found[:-1], quotient(*values, log_m)) and len(made) == 2
    assert np.array_equal(found[7:30], found[:][7:30]) and found[512:].shape == (0, 4)
    assert list(tmp_path.iterdir()) == []       # the files have no name


@pytest.mark.parametrize("new", [InMemory, lambda *size: OnDisk(*size, ".")], ids=["memory", "disk"])
def test_blocks_of_a_matrix(new):
    matrix, values = new(8, 16), np.arange(8 * 16 * 4, dtype=np.uint64).reshape(8, 16, 4)
    matrix.write(0, 0, values)
    block = np.empty((3, 5, 4), np.uint64)
    matrix.read(2, 4, block)
    assert np.array_equal(block, values[2:5, 4:9])
    matrix.write(5, 11, block)
    values[5:8, 11:16] = block
    assert np.array_equal(matrix[:].reshape(8, 16, 4), values)


def test_too_many_rows_are_refused():
    values = case(6, "bits")
    with pytest.raises(ValueError, match="64 rows do not fit a domain of 32"):
        slabs.plan(plan(5)).run(*values)


def test_a_scratch_folder_that_cannot_be_used(tmp_path, monkeypatch):
    with pytest.raises(CuzkError, match="absent") as raised:
        OnDisk(8, 16, tmp_path / "absent")
    assert raised.value.exit == Exit.RESOURCES

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CuzkError, match="4096 bytes.*No space left") as raised:
        OnDisk(8, 16, tmp_path)
    assert raised.value.exit == Exit.RESOURCES and not list(tmp_path.iterdir())
    monkeypatch.undo()
    matrix = OnDisk(8, 16, tmp_path)
    for call in ("pwrite", "preadv"):
        monkeypatch.setattr(os, call, full)
    for use in (lambda: matrix.write(0, 0, np.zeros((1, 16, 4), np.uint64)), lambda: matrix[0:1]):
        with pytest.raises(CuzkError, match="No space left") as raised:
            use()
        assert raised.value.exit == Exit.RESOURCES
