"""Files that appear whole or not at all."""
from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

from ..errors import CuzkError, Exit, fail

TEMPORARY = ".tmp"      # the end of every temporary name
_unfinished: set[Path] = set()


def discard_unfinished() -> None:
    """Remove the temporary files of this process, for an end that does not wait for the threads that write them."""
    for path in list(_unfinished):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            continue


def output_error(error: OSError, operation: str, path) -> CuzkError:
    """What the system said about a file that we write, as an error of the output."""
    return fail(Exit.OUTPUT, operation, error.filename or path, "a writable file", error.strerror)


@contextmanager
def replacing(path):
    """A new binary file that takes the name `path` when the block ends well: fsync, rename, fsync of the folder.

    An exception, or the end of the process, leaves what `path` was. Raises CuzkError (OUTPUT) for what the system
    refuses.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}{TEMPORARY}")
    _unfinished.add(temporary)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise output_error(error, "write", path) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(temporary)
