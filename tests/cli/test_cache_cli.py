"""`cuzk cache`: what is kept, and its removal."""
import fcntl

import pytest

from cuzk_cli.params.marker import LOCK


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "cuzk"
    for name, size in (("test-params/a.params", 100), ("test-params/b.vk", 20), ("digests/x.json", 3), ("numba/deep/y", 4)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    return folder


def sizes(answer, key):
    return {each["name"]: (each["files"], each["size_bytes"]) for each in answer[key]}


def test_a_list(inside, cache):
    answer = inside("cache", "list").json
    assert sizes(answer, "caches") == {"test-params": (2, 120), "digests": (1, 3), "numba": (1, 4)}
    assert answer["ok"] and answer["size_bytes"] == 127 and answer["folder"] == str(cache)


def test_no_cache(inside, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert inside("cache", "list").json["caches"] == []
    assert inside("cache", "clear").json["removed"] == [] == inside("cache", "clear", "numba").json["removed"]


def test_some_and_all_are_cleared(inside, cache):
    assert sizes(inside("cache", "clear", "digests", "numba").json, "removed") == {"digests": (1, 3), "numba": (1, 4)}
    assert sorted(path.name for path in cache.iterdir()) == ["test-params"]
    assert sizes(inside("cache", "clear").json, "removed") == {"test-params": (2, 120)} and not list(cache.iterdir())


def test_a_name_that_is_none(inside, cache):
    found = inside("cache", "clear", "../..")
    assert found.code == 2 and "test-params" in found.lines[0] and (cache / "digests").exists()


def test_links_are_not_followed(inside, cache, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (cache / "numba" / "link").symlink_to(tmp_path / "mine")
    (cache / "link").symlink_to(tmp_path / "mine")
    assert "link" not in sizes(inside("cache", "clear").json, "removed") and (cache / "link").is_symlink()
    assert (tmp_path / "mine" / "file").read_text() == "mine"


def test_parameters_that_are_made_now(inside, cache):
    with open(cache / "test-params" / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = inside("cache", "clear", "test-params")
    assert found.code == 15 and (cache / "test-params" / "a.params").exists()
    assert inside("cache", "clear", "test-params").code == 0 and not (cache / "test-params").exists()
