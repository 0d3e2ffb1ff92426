"""Files that appear whole or not at all."""
from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path

from ..errors import CuzkError, Exit, fail

TEMPORARY = ".tmp"      # the end of every temporary name
_unfinished: set[Path] = set()


def discard_unfinished() -> None:
    """Remove the temporary files of this process, for an end that does not wait for the threads that write them."""
    for path in list(_unfinished):
        _discard(path)


def output_error(error: OSError, operation: str, path) -> CuzkError:
    """What the system said about a file that we write, as an error of the output."""
    return fail(Exit.OUTPUT, operation, error.filename or path, "a writable file", error.strerror)


def _cut(name: str, count: int) -> str:
    """The start of a file's name, at most so many bytes."""
    return os.fsencode(name)[:count].decode(errors="ignore")


def _discard(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        pass                    # what stopped the write may stop this


def _rename(temporary: Path, path: Path, replace: bool) -> None:
    if replace:
        os.rename(temporary, path)
        return
    try:
        os.link(temporary, path)        # fails where there is something, whatever was there when we began
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(path):       # a file system without links
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.rename(temporary, path)
        return
    os.unlink(temporary)


@contextmanager
def replacing(path, replace: bool = True):
    """A new binary file that takes the name `path` when the block ends well: fsync, rename, fsync of the folder.

    replace: False for a name that must be free. An exception, or the end of the process, leaves what `path` was. Raises CuzkError (OUTPUT) for what the system
    refuses.
    """
    path = Path(path)
    temporary = path.with_name(f".{_cut(path.name, 200)}.{os.getpid()}{TEMPORARY}")
    _unfinished.add(temporary)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, path, replace)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        _discard(temporary)
        raise output_error(error, "write", path) from None
    except BaseException:
        _discard(temporary)
        raise
    finally:
        _unfinished.discard(temporary)
