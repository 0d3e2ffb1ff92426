"""Hand an assignment from one process to another: one anonymous memory file, never a pickle of the witness.

A memfd has no name, so that nothing is left behind when a process is killed; the descriptor travels over a Unix socket.
"""
from __future__ import annotations

import mmap
import os

import numpy as np

_ALIGN = 64


def _leaves(value) -> list[np.ndarray]:
    """The arrays of nested NamedTuples, in field order."""
    if isinstance(value, np.ndarray):
        return [value]
    return [leaf for field in value for leaf in _leaves(field)]


def share(assignment) -> tuple[int, list]:
    """Copy every array of `assignment` (nested NamedTuples of arrays) to a new memfd.

    Returns the descriptor, owned by the caller, and the layout [(dtype, shape, offset), ...].
    """
    layout, offset = [], 0
    leaves = _leaves(assignment)
    for leaf in leaves:
        layout.append((leaf.dtype.str, leaf.shape, offset))
        offset += -(-leaf.nbytes // _ALIGN) * _ALIGN
    fd = os.memfd_create("cuzk-assignment", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, max(offset, 1))
        with mmap.mmap(fd, max(offset, 1)) as memory:
            for leaf, (dtype, shape, start) in zip(leaves, layout):
                view = np.frombuffer(memory, dtype, leaf.size, start).reshape(shape)
                view[...] = leaf
                del view
    except BaseException:
        os.close(fd)
        raise
    return fd, layout


def attach(fd: int, layout: list, template):
    """The assignment that `share` put into `fd`, as read-only views; takes `fd` over.

    template: a NamedTuple *type tree* as made by `shape_of`.
    """
    try:
        memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    arrays = iter(
        np.frombuffer(memory, dtype, int(np.prod(shape, dtype=np.int64)), start).reshape(shape)
        for dtype, shape, start in layout
    )
    return _rebuild(template, arrays)


def shape_of(assignment):
    """The nesting of an assignment without its arrays: (type, [children]) or None for an array."""
    if isinstance(assignment, np.ndarray):
        return None
    return type(assignment), [shape_of(field) for field in assignment]


def _rebuild(template, arrays):
    if template is None:
        return next(arrays)
    kind, children = template
    return kind(*[_rebuild(child, arrays) for child in children])
