"""A read that hangs is named until it ends."""
import threading

from cuzk_cli.sectors import files, watch


def test_a_hanging_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "s-t01000-1"
    path.write_bytes(bytes(64))
    gate, began, real = threading.Event(), threading.Event(), files.os.preadv

    def hang(*arguments):
        began.set()
        assert gate.wait(20)
        return real(*arguments)

    with files.SectorFile(path) as file, monkeypatch.context() as hanging:
        hanging.setattr(files.os, "preadv", hang)
        thread = threading.Thread(target=file.read, args=(0, 64))
        thread.start()
        assert began.wait(20)
        (found,) = watch.blocked(0.0)
        assert (found["operation"], found["path"]) == ("read", str(path)) and found["seconds"] >= 0
        assert not watch.blocked(5.0)
        gate.set()
        thread.join()
    assert not watch.blocked(0.0)


def test_the_longest_first():
    with watch.reading("open", "a"):
        gate = threading.Event()

        def other():
            with watch.reading("read", "b"):
                gate.set()
                done.wait(20)

        done, thread = threading.Event(), threading.Thread(target=other)
        thread.start()
        gate.wait(20)
        assert [read["path"] for read in watch.blocked(0.0)][0] == "a"
        done.set()
        thread.join()
