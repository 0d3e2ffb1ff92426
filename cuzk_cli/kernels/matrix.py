"""Matrices of field elements as words, in memory or in a file, which are gone through in blocks."""
from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np

from ..errors import Exit, fail

ELEMENT = 32        # bytes


class InMemory:
    """uint64[rows, columns, 4] in a mapping of its own, which goes back to the system when nobody holds it."""

    def __init__(self, rows: int, columns: int):
        memory = mmap.mmap(-1, rows * columns * ELEMENT)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)      # blocks of columns touch a page a row
        self.words = np.frombuffer(memory, np.uint64).reshape(rows, columns, 4)

    def read(self, row: int, column: int, out: np.ndarray) -> None:
        """Fill out [rows, width, 4] from the block that begins there."""
        rows, width, _ = out.shape
        out[...] = self.words[row:row + rows, column:column + width]

    def write(self, row: int, column: int, block: np.ndarray) -> None:
        """Put a block [rows, width, 4] there."""
        rows, width, _ = block.shape
        self.words[row:row + rows, column:column + width] = block

    def __len__(self) -> int:
        return self.words.shape[0] * self.words.shape[1]

    def __getitem__(self, part: slice) -> np.ndarray:
        """Elements in order, [n, 4]."""
        return self.words.reshape(-1, 4)[part]


class OnDisk:
    """The same in a file without a name, which is gone with the process, however that ends."""

    def __init__(self, rows: int, columns: int, folder):
        """Raises CuzkError (RESOURCES) for a folder that has not the room or cannot be written."""
        self.rows, self.columns, self._folder = rows, columns, folder
        size = rows * columns * ELEMENT
        try:
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".cuzk-", buffering=0)
            os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            raise self._failed(error, f"{size} bytes for intermediate values") from None

    def _failed(self, error: OSError, expected: str):
        return fail(Exit.RESOURCES, "use the scratch folder", self._folder, expected, error.strerror or error,
                    "--scratch names another folder")

    def read(self, row: int, column: int, out: np.ndarray) -> None:
        rows, width, _ = out.shape
        if width == self.columns:
            self._read(out, row * width)
            return
        for i in range(rows):
            self._read(out[i], (row + i) * self.columns + column)

    def write(self, row: int, column: int, block: np.ndarray) -> None:
        rows, width, _ = block.shape
        parts = [(block, row * width)] if width == self.columns else [
            (block[i], (row + i) * self.columns + column) for i in range(rows)]
        for part, element in parts:
            view, done = memoryview(np.ascontiguousarray(part).reshape(-1).view(np.uint8)), 0
            while done < len(view):
                try:
                    done += os.pwrite(self._file.fileno(), view[done:], element * ELEMENT + done)
                except OSError as error:
                    raise self._failed(error, "to write intermediate values") from None

    def _read(self, out: np.ndarray, element: int) -> None:
        view, done = memoryview(out.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            try:
                got = os.preadv(self._file.fileno(), [view[done:]], element * ELEMENT + done)
            except OSError as error:
                raise self._failed(error, "to read intermediate values") from None
            if not got:
                raise fail(Exit.RESOURCES, "read the scratch file", self._folder, "what was written", "its end")
            done += got

    def __len__(self) -> int:
        return self.rows * self.columns

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(len(self))
        out = np.empty((max(stop - start, 0), 4), np.uint64)
        self._read(out, start)
        return out
