"""The synthesis pool: assignments in shared memory from processes without JAX, and what happens when one is killed."""
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.prove import circuits, snap, synthesis
from cuzk_cli.prove.shared import attach, shape_of, share
from cuzk_cli.prove.synthesis import SynthesisPool

SECTOR = Path(__file__).parents[2] / "fixtures" / "sectors" / "2KiB" / "s-t01000-1"


@pytest.fixture(scope="module")
def witness():
    return snap.Request(str(SECTOR)).prepare().witness(0)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def test_sharing_keeps_every_array(witness):
    assignment = circuits.synthesise("snap", 2048, witness)
    fd, layout = share(assignment)
    copy = attach(fd, layout, shape_of(assignment))
    assert same(assignment, copy) and not copy.aux_small.flags.writeable


def test_a_worker_has_no_jax_and_gives_the_same_assignment(witness):
    pool = SynthesisPool(1)
    try:
        started = []
        found = pool.submit("snap", 2048, witness, lambda: started.append(1)).result(timeout=120)
        assert started == [1] and same(found.assignment, circuits.synthesise("snap", 2048, witness))
        (pid,) = pool.pids()
        assert "jaxlib" not in Path(f"/proc/{pid}/maps").read_text()
    finally:
        pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_worker_is_named_and_its_partition_tried_again(witness):
    warnings = []
    pool = SynthesisPool(1, warnings.append)
    try:
        future = pool.submit("snap", 2048, witness, lambda: os.kill(pool.pids()[0], signal.SIGKILL))
        assert future.result(timeout=120).assignment.aux_small.size
        assert len(warnings) == 1 and "SIGKILL" in warnings[0]
        future = pool.submit("snap", 2048, witness, lambda: os.kill(pool.pids()[0], signal.SIGKILL))
        with pytest.raises(CuzkError) as raised:
            future.result(timeout=120)
        assert raised.value.exit == Exit.RESOURCES and "a second time" in str(raised.value)
        assert pool.submit("snap", 2048, witness).result(timeout=120)       # and the pool goes on
    finally:
        pool.close()


def test_what_a_worker_refuses_reaches_the_caller(witness):
    pool = SynthesisPool(1)
    try:
        bad = witness._replace(comm_c=np.full(4, 2**64 - 1, np.uint64))
        with pytest.raises(CuzkError) as raised:
            pool.submit("snap", 2048, bad).result(timeout=120)
        assert raised.value.exit == Exit.INPUT
    finally:
        pool.close()


def test_a_signal_without_a_name_is_a_death_like_any_other(witness):
    warnings = []
    pool = SynthesisPool(1, warnings.append)
    try:
        future = pool.submit("snap", 2048, witness, lambda: os.kill(pool.pids()[0], 35))
        assert future.result(timeout=120).assignment.aux_small.size
        assert len(warnings) == 1 and "signal 35" in warnings[0]
    finally:
        pool.close()


def test_workers_start_when_there_is_work(witness):
    pool = SynthesisPool(8)
    try:
        assert pool.submit("snap", 2048, witness).result(timeout=120) and len(pool.pids()) <= 2
    finally:
        pool.close()


@pytest.mark.parametrize("error, code", [(OSError(24, "Too many open files"), Exit.RESOURCES),
                                         (ZeroDivisionError("x"), Exit.INTERNAL)])
def test_what_a_thread_of_the_pool_meets_reaches_the_caller(witness, monkeypatch, error, code, tmp_path):
    """And the thread goes on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pool, real, raised = SynthesisPool(1), synthesis.attach, []

    def attach(*arguments):
        if not raised:
            raised.append(error)
            raise error
        return real(*arguments)

    monkeypatch.setattr(synthesis, "attach", attach)
    try:
        with pytest.raises(CuzkError) as caught:
            pool.submit("snap", 2048, witness).result(timeout=120)
        assert caught.value.exit == code
        assert pool.submit("snap", 2048, witness).result(timeout=120).assignment.aux_small.size
    finally:
        pool.close()
