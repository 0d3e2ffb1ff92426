"""What is kept of jobs that did not end, and the lock of a job."""
import os
import subprocess
import sys
import textwrap

import pytest

from cuzk_cli.prove import joblock, journal
from cuzk_cli.prove.joblock import JobLock
from cuzk_cli.prove.journal import Journal

PROOFS = [bytes([i]) * 192 for i in range(3)]


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "cuzk"


def test_partitions_are_kept_until_the_job_is_cleared():
    first = Journal("snap-1-2-abc", b"identity", b"key")
    for k in (2, 0):
        first.keep(k, PROOFS[k])
    again = Journal("snap-1-2-abc", b"identity", b"key")
    assert again.load() == {0: PROOFS[0], 2: PROOFS[2]}
    (job,) = journal.kept()
    assert (job.job_id, job.partitions, job.folder) == ("snap-1-2-abc", [0, 2], first.folder)
    assert os.stat(first.folder).st_mode & 0o777 == 0o700
    again.clear()
    assert not journal.kept() and not first.load() and not first.folder.exists()
    again.clear()


@pytest.mark.parametrize("identity, key", [(b"other", b"key"), (b"identity", b"other"), (b"identityk", b"ey")])
def test_another_input_or_key_has_another_journal(identity, key):
    Journal("snap-1-2-abc", b"identity", b"key").keep(0, PROOFS[0])
    assert not Journal("snap-1-2-abc", identity, key).load()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"proof": 1}', b'{"proof": "zz"}', b'{"proof": "00"}',
                                    b"[" * 100000])
def test_damaged_entries_are_as_good_as_none(damage):
    kept = Journal("snap-1-2-abc", b"identity", b"key")
    for k in (0, 1):
        kept.keep(k, PROOFS[k])
    (kept.folder / "0.json").write_bytes(damage)
    (kept.folder / "x.json").write_text("{}")
    (kept.folder / "2.json").mkdir()
    assert kept.load() == {1: PROOFS[1]}


def test_a_journal_that_cannot_be_written_is_one_warning(state):
    state.write_text("a file")
    said = []
    kept = Journal("snap-1-2-abc", b"identity", b"key", said.append)
    kept.keep(0, PROOFS[0])
    kept.keep(1, PROOFS[1])
    assert len(said) == 1 and str(kept.folder) in said[0] and not kept.load() and not journal.kept()
    kept.clear()


def holder(name: str, *then: str):
    """Another process that holds the lock of a job."""
    code = f"""
        from cuzk_cli.prove.joblock import JobLock
        lock = JobLock({name!r})
        print(lock.acquire(), flush=True)
        input()
        lock.release()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "None\n"
    return process


def test_one_process_holds_a_job():
    other = holder("snap-1-2-abc")
    lock = JobLock("snap-1-2-abc")
    assert lock.acquire() == other.pid == joblock.owner("snap-1-2-abc")
    assert JobLock("snap-1-3-abc").acquire() is None
    other.communicate("\n")
    assert joblock.owner("snap-1-2-abc") is None and lock.acquire() is None
    assert joblock.owner("snap-1-2-abc") == os.getpid()
    lock.release()
    lock.release()
    assert not lock.path.exists()


def test_a_process_that_is_killed_holds_nothing():
    other = holder("snap-1-2-abc")
    other.kill()
    other.wait()
    lock = JobLock("snap-1-2-abc")
    assert lock.acquire() is None
    lock.release()
    assert not lock.path.exists()
