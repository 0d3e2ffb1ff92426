"""Read-only access to one file by positioned reads; every failure names the file, the offset and the reason.

Nothing is mapped: a file that is cut off under a mapping kills the process.
"""
from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import numpy as np

from ..errors import CuzkError, Exit, fail
from .watch import reading

NODE = 32           # bytes of a tree node
_PIECE = 1 << 24    # bytes of one read
_RETRIES = 5        # of a read that was interrupted or not ready


def present(path) -> bool:
    """Whether there is anything at `path`, a dangling link too.

    What cannot be asked counts as there: opening it will say why.
    """
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    except ValueError:          # a null byte in the name
        return False
    return True


class SectorFile:
    """An open file of nodes. `size` in bytes, `nodes` in nodes of 32 bytes."""

    def __init__(self, path: Path, hint: str | None = None):
        """Raises CuzkError (INPUT) where the file is missing, unreadable or no regular file."""
        self.path, self._fd = path, -1
        try:
            with reading("open", path):
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                status = os.fstat(self._fd)
        except OSError as error:
            raise unreadable(path, "open", error, hint) from None
        except ValueError as error:
            raise fail(Exit.INPUT, "open", repr(str(path)), "the name of a file", error) from None
        if not stat.S_ISREG(status.st_mode):
            self.close()
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "something that is not a regular file"
            raise fail(Exit.INPUT, "open", path, "a file", kind, hint)
        self.size = status.st_size

    @property
    def nodes(self) -> int:
        return self.size // NODE

    def read(self, offset: int, count: int) -> bytearray:
        """`count` bytes from `offset`. Raises CuzkError (INPUT) for an I/O error or the end of the file."""
        out, done, failures = bytearray(count), 0, 0
        view = memoryview(out)
        while done < count:
            try:
                with reading("read", self.path):
                    got = os.preadv(self._fd, [view[done:done + _PIECE]], offset + done)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EINTR) and failures < _RETRIES:
                    failures += 1
                    time.sleep(0.01 * failures)
                    continue
                raise unreadable(self.path, f"read at offset {offset + done}", error) from None
            if not got:
                raise fail(Exit.INPUT, f"read at offset {offset + done}", self.path, f"{offset + count} bytes",
                           "the end of the file")
            done += got
        return out

    def read_nodes(self, first: int, count: int) -> np.ndarray:
        """Nodes first .. first + count as words uint64[count, 4]."""
        return np.frombuffer(self.read(first * NODE, count * NODE), "<u8").reshape(count, 4)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "SectorFile":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self):
        self.close()


def unreadable(path, operation: str, error: OSError, hint: str | None = None) -> CuzkError:
    """The error of an operating system call on a sector's file."""
    if error.errno == errno.ENOENT and hint is None:
        hint = "the file is required"
    return fail(Exit.INPUT, operation, path, "a readable file", f"{error.strerror or error} (errno {error.errno})",
                hint)
