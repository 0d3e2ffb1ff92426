"""What is wrong with a sector's files is refused with the file's name, all problems at once."""
import errno
import os
import shutil
from pathlib import Path

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.sectors import locate
from cuzk_cli.sectors.preflight import make_vanilla, preflight

ROOT = Path(__file__).parents[2] / "fixtures" / "sectors"
REQUIRED = ["sealed/s-t01000-1", "cache/s-t01000-1/p_aux", "update/s-t01000-1",
            "update-cache/s-t01000-1/sc-02-data-tree-d.dat"]
OPTIONAL = ["cache/s-t01000-1/sc-02-data-tree-r-last.dat", "update-cache/s-t01000-1/sc-02-data-tree-r-last.dat",
            "update-cache/s-t01000-1/p_aux"]


@pytest.fixture
def storage(tmp_path):
    shutil.copytree(ROOT / "2KiB", tmp_path / "storage")
    return tmp_path / "storage"


def refused(storage, path=None, **options):
    """The lines of the refusal; `path` must be in one of them."""
    with pytest.raises(CuzkError) as raised:
        preflight(locate.find(f"{storage}/s-t01000-1"), **options)
    assert raised.value.exit == Exit.INPUT
    lines = [p.line() for p in raised.value.problems]
    assert path is None or any(str(path) in line for line in lines), lines
    assert all("\n" not in line for line in lines)
    return lines


@pytest.mark.parametrize("file", REQUIRED)
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "long", "folder", "unreadable"])
def test_required_files(storage, file, damage, monkeypatch):
    path = storage / file
    data = path.read_bytes()
    if damage == "unreadable":
        opened = os.open

        def refuse(name, *args, **kwargs):
            if os.fspath(name) == str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
            return opened(name, *args, **kwargs)
        monkeypatch.setattr(os, "open", refuse)
    elif damage in ("missing", "folder"):
        path.unlink()
        if damage == "folder":
            path.mkdir()
    else:
        path.write_bytes({"empty": b"", "short": data[:-1], "long": data + b"\0"}[damage])
    refused(storage, path)


@pytest.mark.parametrize("file", REQUIRED + OPTIONAL)
@pytest.mark.parametrize("position", [0, 0.5, 1])
def test_one_flipped_bit(storage, file, position):
    path = storage / file
    data = bytearray(path.read_bytes())
    data[int(position * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    refused(storage)


@pytest.mark.parametrize("file", OPTIONAL)
@pytest.mark.parametrize("damage", ["empty", "short", "long", "folder"])
def test_optional_files_must_be_right(storage, file, damage):
    path = storage / file
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "short": data[:-1], "long": data + b"\0"}[damage])
    refused(storage, path)


def test_what_may_be_absent(storage):
    whole = preflight(locate.find(f"{storage}/s-t01000-1"))
    for file in OPTIONAL + ["cache/s-t01000-1/t_aux", "update-cache/s-t01000-1/t_aux",
                            "cache/s-t01000-1/sc-02-data-tree-d.dat", "cache/s-t01000-1/sc-02-data-tree-c.dat",
                            "cache/s-t01000-1/sc-02-data-layer-1.dat"]:
        (storage / file).unlink()
    checked = preflight(locate.find(f"{storage}/s-t01000-1"))
    assert checked.commitments == whole.commitments
    assert len(checked.warnings) == 2 and all("rebuilt" in text for text in checked.warnings)


def test_an_io_error_names_the_offset(storage, monkeypatch):
    def broken(fd, buffers, offset):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    monkeypatch.setattr(os, "preadv", broken)
    lines = refused(storage)
    assert any("offset 0" in line and "Input/output error" in line for line in lines)


def test_the_cache_of_another_sector(storage):
    shutil.rmtree(storage / "cache" / "s-t01000-1")
    shutil.copytree(storage / "cache" / "s-t01000-2", storage / "cache" / "s-t01000-1")
    refused(storage, storage / "cache" / "s-t01000-1")


def test_the_update_of_another_sector(storage):
    shutil.copy(storage / "update" / "s-t01000-2", storage / "update" / "s-t01000-1")
    refused(storage)


def test_another_size(storage):
    shutil.copy(ROOT / "4KiB" / "update" / "s-t01000-1", storage / "update" / "s-t01000-1")
    refused(storage, storage / "update" / "s-t01000-1")


def test_commitments_that_do_not_match(storage):
    for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
        lines = refused(storage, expected={name: bytes(32)})
        assert any(name in line for line in lines)


def test_all_problems_at_once(storage):
    (storage / REQUIRED[0]).unlink()
    (storage / REQUIRED[1]).write_bytes(b"x")
    (storage / REQUIRED[3]).unlink()
    lines = refused(storage)
    for file in (REQUIRED[0], REQUIRED[1], REQUIRED[3]):
        assert any(str(storage / file) in line for line in lines)


def test_commitments_are_compared_with_what_could_be_read(storage):
    (storage / REQUIRED[3]).unlink()
    wrong = {name: bytes(32) for name in ("comm_r_old", "comm_r_new", "comm_d_new")}
    lines = refused(storage, storage / REQUIRED[3], expected=wrong)
    assert len(lines) == 3 and all(any(name in line for line in lines) for name in ("comm_r_old", "comm_r_new"))


def test_labels_are_checked_beside_wrong_commitments(storage):
    """An update that nothing else vouches for: no rows, no p_aux."""
    for file in OPTIONAL[1:]:
        (storage / file).unlink()
    path = storage / REQUIRED[2]
    data = bytearray(path.read_bytes())
    data[320] ^= 1
    path.write_bytes(data)
    lines = refused(storage, path, expected={"comm_d_new": bytes(32)})
    assert any("check node 10" in line for line in lines) and any("comm_d_new" in line for line in lines)


@pytest.mark.parametrize("file", OPTIONAL)
def test_an_optional_file_that_cannot_be_looked_at_is_not_absent(storage, file, monkeypatch):
    path, real = storage / file, {name: getattr(os, name) for name in ("open", "stat", "lstat")}

    def refusing(name):
        def call(target, *args, **kwargs):
            if not isinstance(target, int) and os.fspath(target) == str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
            return real[name](target, *args, **kwargs)
        return call
    for name in real:
        monkeypatch.setattr(os, name, refusing(name))
    assert any("Permission denied" in line for line in refused(storage, path))


@pytest.mark.parametrize("file", OPTIONAL)
def test_a_dangling_link_is_not_absent(storage, file):
    (storage / file).unlink()
    (storage / file).symlink_to(storage / "nowhere")
    refused(storage, storage / file)


@pytest.mark.parametrize("folder", ["cache", "update-cache"])
def test_a_file_instead_of_a_folder(storage, folder):
    shutil.rmtree(storage / folder / "s-t01000-1")
    (storage / folder / "s-t01000-1").write_bytes(b"x")
    refused(storage, storage / folder / "s-t01000-1")


def test_a_fifo_does_not_block(storage):
    path = storage / REQUIRED[0]
    path.unlink()
    os.mkfifo(path)
    refused(storage, path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\udcff"], ids=["long", "null byte", "no text"])
def test_folders_that_no_system_call_takes(tmp_path, name):
    refused(tmp_path / name)


def test_a_read_that_is_never_ready_ends(storage, monkeypatch):
    def busy(fd, buffers, offset):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    monkeypatch.setattr(os, "preadv", busy)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert any(f"errno {errno.EAGAIN}" in line for line in refused(storage))


def test_short_reads_are_continued(storage, monkeypatch):
    whole, read = preflight(locate.find(f"{storage}/s-t01000-1")), os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: read(fd, [buffers[0][:7]], offset))
    assert preflight(locate.find(f"{storage}/s-t01000-1")).commitments == whole.commitments


def test_the_bench_layout(storage):
    (storage / "updatecache").mkdir()
    shutil.move(storage / "update-cache" / "s-t01000-1", storage / "updatecache" / "s-t01000-1")
    found = locate.find(f"{storage}/s-t01000-1")         # update-cache/ still holds another sector
    assert found.update_cache == storage / "updatecache" / "s-t01000-1"
    preflight(found)


def test_nothing_is_written(storage, monkeypatch):
    opened, before = os.open, {p: p.stat().st_mtime_ns for p in storage.rglob("*")}
    flags = []
    monkeypatch.setattr(os, "open", lambda name, how, *args, **kw: flags.append(how) or opened(name, how, *args, **kw))
    make_vanilla(preflight(locate.find(f"{storage}/s-t01000-1")), 0)
    assert flags and all(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0 for how in flags)
    assert before == {p: p.stat().st_mtime_ns for p in storage.rglob("*")}


def test_names_and_storage_folders(storage, tmp_path):
    for bad in ("s-t01000", "x", "s-t1000-1", "s-t01000-1.car", "s-t01000-99999999999999999999999"):
        with pytest.raises(CuzkError) as raised:
            locate.find(bad, [str(storage)])
        assert raised.value.exit == Exit.USAGE
    with pytest.raises(CuzkError) as raised:
        locate.find("s-t01000-9", [str(storage)])
    assert raised.value.exit == Exit.INPUT
    other = tmp_path / "other"
    (other / "update").mkdir(parents=True)
    shutil.move(storage / "update" / "s-t01000-1", other / "update" / "s-t01000-1")
    found = locate.find("s-t01000-1", [str(storage), str(other)])
    assert found.update == other / "update" / "s-t01000-1" and found.sealed == storage / "sealed" / "s-t01000-1"
    preflight(found)
