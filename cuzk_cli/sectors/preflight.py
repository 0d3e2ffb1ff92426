"""Look at a sector's files before any long work, and list everything that is wrong with them.

Up to 16 MiB every node is recomputed: both trees R from the replicas, tree D from its leaves, the label equation.
Above, roots come from the cached rows, and what a challenge reads is checked when its vanilla proof is.
"""
from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple

import numpy as np

from ..errors import CuzkError, Exit, Problem, fail
from ..protocol.poseidon import poseidon_batch
from ..protocol.table import SIZES, Size
from . import vanilla
from .files import NODE, SectorFile, present
from .locate import Sector
from .trees import CachedTree, Hash, Tree, TreeFile, discarded_rows, sha_pairs
from .vanilla import Commitments

IN_MEMORY = 16 << 20        # bytes of the largest sector that is recomputed as a whole


class Checked(NamedTuple):
    """A sector whose files belong together."""

    sector: Sector
    size: Size
    comm_c: bytes
    commitments: Commitments
    tree_r_old: object
    tree_d_new: object
    tree_r_new: object
    warnings: list


class _WholeTreeD(TreeFile):
    """Tree D in memory."""

    def __init__(self, words: np.ndarray, log_leaves: int):
        self.log_leaves, self._words = log_leaves, words

    @property
    def root(self) -> np.ndarray:
        return self._words[-1]

    def nodes(self, height: int, first: int, count: int) -> np.ndarray:
        start = self.row(height) + first
        return self._words[start:start + count]

    def leaves(self, index: np.ndarray) -> np.ndarray:
        return self._words[index]


class _Inspection:
    """Collects problems; each step gives None where it could not be done."""

    def __init__(self, sector: Sector, hash: Hash, consistent: bool):
        self.sector, self.hash, self.consistent = sector, hash, consistent
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def attempt(self, function, *args):
        try:
            return function(*args)
        except CuzkError as error:
            self.problems += error.problems
            return None

    def wrong(self, path, operation, expected=None, actual=None, hint=None) -> None:
        self.problems += fail(Exit.INPUT, operation, path, expected, actual, hint).problems

    def disagree(self, path, operation, expected=None, actual=None, hint=None) -> None:
        """Files that can be read but do not belong together: a problem, or a warning where that is what is asked for."""
        if self.consistent:
            self.wrong(path, operation, expected, actual, hint)
        else:
            self.warnings.append(fail(Exit.INPUT, operation, path, expected, actual, hint).problems[0].line())

    # ---- single files
    def replica(self, path: Path, size: int | None) -> SectorFile | None:
        file = self.attempt(SectorFile, path)
        if file is not None and file.size not in SIZES and size is None:
            self.wrong(path, "check the size", "a sector size: " + ", ".join(s.name for s in SIZES.values()),
                       f"{file.size} bytes")
            return None
        if file is not None and size is not None and file.size != size:
            self.wrong(path, "check the size", f"{size} bytes", f"{file.size} bytes",
                       "a replica is as large as its sector")
            return None
        return file

    def p_aux(self, folder: Path, required: bool) -> tuple[bytes, bytes] | None:
        """(comm_c, comm_r_last)."""
        path = folder / "p_aux"
        if not required and not present(path):
            return None
        hint = "it cannot be rebuilt: the sector must be sealed again" if required else None
        file = self.attempt(SectorFile, path, hint)
        if file is None:
            return None
        if file.size != 2 * NODE:
            self.wrong(path, "check the size", f"{2 * NODE} bytes", f"{file.size} bytes")
            return None
        data = self.attempt(file.read, 0, 2 * NODE)
        if data is None:
            return None
        words = np.frombuffer(data, "<u8").reshape(2, 4)
        if vanilla.not_below_r(words).any():
            self.wrong(path, "read", "two field elements", data.hex())
            return None
        return bytes(data[:NODE]), bytes(data[NODE:])

    def tree_d(self, size: Size) -> object | None:
        path = self.sector.update_cache / "sc-02-data-tree-d.dat"
        file = self.attempt(SectorFile, path)
        if file is None:
            return None
        expected = (2 * size.nodes - 1) * NODE
        if file.size != expected:
            self.wrong(path, "check the size", f"{expected} bytes", f"{file.size} bytes")
            return None
        if size.bytes > IN_MEMORY:
            return TreeFile(file, size.log_nodes)
        words = self.attempt(file.read_nodes, 0, file.nodes)
        if words is None:
            return None
        if self.no_elements(path, words):
            return None
        tree, start = Tree(words[:size.nodes], (2,) * size.log_nodes, sha_pairs), 0
        for height, level in enumerate(tree.levels):
            stored = words[start:start + len(level)]
            bad = np.flatnonzero((stored != level).any(axis=1))
            if len(bad):
                self.disagree(path, f"check node {start + bad[0]} (row {height})", level[bad[0]].tobytes().hex(),
                              stored[bad[0]].tobytes().hex(), "tree D does not follow from its leaves")
                if self.consistent:
                    return None
                break
            start += len(level)
        return _WholeTreeD(words, size.log_nodes)

    def no_elements(self, path, words: np.ndarray) -> bool:
        bad = np.flatnonzero(vanilla.not_below_r(words))
        if len(bad):
            self.wrong(path, f"read node {bad[0]}", "a field element", words[bad[0]].tobytes().hex())
        return bool(len(bad))

    def tree_r(self, replica: SectorFile, folder: Path, size: Size) -> object | None:
        """Tree R of a replica; the files of cached rows are compared with it, or used."""
        count = size.base_trees
        names = ["sc-02-data-tree-r-last" + (f"-{i}" if count > 1 else "") + ".dat" for i in range(count)]
        files = {name: self.attempt(SectorFile, folder / name) for name in names if present(folder / name)}
        if any(file is None for file in files.values()):
            return None
        missing = [name for name in names if name not in files]
        if size.bytes > IN_MEMORY:
            if missing:
                self.wrong(folder / missing[0], "open", "the cached rows of tree R", "no such file",
                           "they can be rebuilt from the replica: update_tree_r_cache rebuild")
                return None
            return self.attempt(CachedTree, replica, [files[n] for n in names], size.nodes, size.arities, self.hash)
        leaves = self.attempt(replica.read_nodes, 0, size.nodes)
        if leaves is None or self.no_elements(replica.path, leaves):
            return None
        tree, good = Tree(leaves, size.arities, self.hash), True
        if missing:
            more = f", and {len(missing) - 1} more" if missing[1:] else ""
            self.warnings.append(f"{folder / missing[0]}: absent{more}; tree R was rebuilt from the replica")
        for i, name in enumerate(names):
            if name in files:
                good &= self.compare(files[name], tree, i, size, replica)
        return tree if good else None

    def compare(self, file: SectorFile, tree: Tree, i: int, size: Size, replica: SectorFile) -> bool:
        base = size.nodes // size.base_trees
        discarded = self.attempt(discarded_rows, file.path, file.size, base)
        stored = None if discarded is None else self.attempt(file.read_nodes, 0, file.nodes)
        if stored is None:
            return False
        height, at = discarded + 1, 0
        while 8 ** height <= base:
            width = base // 8 ** height
            row = tree.levels[height][i * width:(i + 1) * width]
            bad = np.flatnonzero((stored[at:at + width] != row).any(axis=1))
            if len(bad):
                self.disagree(file.path, f"compare node {at + bad[0]} (row {height}) with the replica",
                              row[bad[0]].tobytes().hex(), stored[at + bad[0]].tobytes().hex(),
                              f"this file or {replica.path} is damaged or of another sector")
                return not self.consistent
            height, at = height + 1, at + width
        return True

    def labels(self, size: Size, commitments: Commitments, old: Tree, data, new: Tree) -> None:
        """new = old + data · rho(high bits of the index), for every node."""
        shift = size.log_nodes - size.snap_h
        rho = vanilla.rhos(commitments, np.arange(1 << size.snap_h))
        expected = vanilla.encode(old.levels[0], data.nodes(0, 0, size.nodes), rho, np.arange(size.nodes) >> shift)
        bad = np.flatnonzero((expected != new.levels[0]).any(axis=1))
        if len(bad):
            self.disagree(self.sector.update, f"check node {bad[0]}: old + data · rho",
                          expected[bad[0]].tobytes().hex(), new.levels[0][bad[0]].tobytes().hex(),
                          f"{len(bad)} of {size.nodes} nodes differ: the update does not encode this data on this "
                          "replica")


def _comm_r(aux: tuple[bytes, bytes] | None, tree) -> bytes | None:
    """H(comm_c, root of tree R), where both are known."""
    if aux is None or tree is None:
        return None
    return poseidon_batch(np.stack([np.frombuffer(aux[0], "<u8"), tree.root])[None])[0].tobytes()


def preflight(sector: Sector, expected: Mapping[str, bytes] | None = None, hash: Hash = poseidon_batch,
              sector_size: Size | None = None, consistent: bool = True) -> Checked:
    """Open, read and check a sector's files.

    expected: commitments that the user gave, by name (comm_r_old, comm_r_new, comm_d_new). hash: Poseidon of octets.
    consistent: False makes warnings of files that can be read but do not belong together, and takes `expected` as it is:
    for digests, which never refuse what does not satisfy the circuit.
    Raises CuzkError (INPUT) with all problems at once.
    """
    look = _Inspection(sector, hash, consistent)
    wanted = None if sector_size is None else sector_size.bytes
    sealed = look.replica(sector.sealed, wanted)
    update = look.replica(sector.update, wanted if sealed is None else sealed.size)
    aux_old, aux_new = look.p_aux(sector.cache, True), look.p_aux(sector.update_cache, False)
    found = sealed or update
    size = None if found is None else SIZES.get(found.size)
    tree_d = None if size is None else look.tree_d(size)
    if size is None:
        look.attempt(SectorFile, sector.update_cache / "sc-02-data-tree-d.dat")
    r_old = None if sealed is None or size is None else look.tree_r(sealed, sector.cache, size)
    r_new = None if update is None or size is None else look.tree_r(update, sector.update_cache, size)

    if aux_old is not None and r_old is not None and r_old.root.tobytes() != aux_old[1]:
        look.disagree(sector.cache / "p_aux", "compare comm_r_last with the root of tree R", r_old.root.tobytes().hex(),
                      aux_old[1].hex(), f"p_aux is damaged or of another sector, or {sector.sealed} is")
    if aux_new is not None:
        if aux_old is not None and aux_new[0] != aux_old[0]:
            look.disagree(sector.update_cache / "p_aux", "compare comm_c with that of the old cache", aux_old[0].hex(),
                          aux_new[0].hex(), "one of the two is damaged or of another sector")
        if r_new is not None and r_new.root.tobytes() != aux_new[1]:
            look.disagree(sector.update_cache / "p_aux", "compare comm_r_last with the root of tree R",
                          r_new.root.tobytes().hex(), aux_new[1].hex(), f"p_aux or {sector.update} is damaged")

    # each commitment apart, so that options are compared with whatever could be read
    known = {"comm_r_old": _comm_r(aux_old, r_old), "comm_r_new": _comm_r(aux_old, r_new),
             "comm_d_new": None if tree_d is None else tree_d.root.tobytes()}
    commitments = None if None in known.values() else Commitments(**known)
    if commitments is not None and not look.problems and size.bytes <= IN_MEMORY:
        look.labels(size, commitments, r_old, tree_d, r_new)
    for name, value in (expected or {}).items():
        if known[name] is not None and value != known[name]:
            look.disagree(sector.name, f"compare {name} with the sector's files", value.hex(), known[name].hex(),
                          "the files are of another sector, or the commitment is")
    if look.problems:
        raise CuzkError(*look.problems)
    if not consistent:
        commitments = commitments._replace(**(expected or {}))
    return Checked(sector, size, aux_old[0], commitments, r_old, tree_d, r_new, look.warnings)


def make_vanilla(checked: Checked, partition: int) -> vanilla.PartitionProof:
    """The vanilla proof of one partition of a checked sector."""
    return vanilla.make(checked.size, checked.comm_c, checked.commitments, checked.tree_r_old, checked.tree_d_new,
                        checked.tree_r_new, partition)


class Replica(NamedTuple):
    """One replica of a sector, for a PoSt."""

    sector: Sector
    which: str              # "sealed" or "update"
    size: Size
    comm_c: bytes
    comm_r: bytes
    tree: object            # Tree | CachedTree
    warnings: list[str]


def open_replica(sector: Sector, which: str, comm_r: bytes | None = None, sector_size: Size | None = None,
                 hash: Hash = poseidon_batch, consistent: bool = True) -> Replica:
    """Open and check what a PoSt reads of a sector: a replica, its p_aux and its cached rows of tree R.

    which: sealed, update, or auto: the one of this comm_r, else the update where there is one. consistent: as
    `preflight` has it. Raises CuzkError (INPUT) with all problems at once.
    """
    def of(one: str, comm_r: bytes | None, consistent: bool) -> Replica:
        return _open_replica(sector, one, comm_r, sector_size, hash, consistent)

    if which != "auto":
        return of(which, comm_r, consistent)
    if not present(sector.update):
        return of("sealed", comm_r, consistent)
    if comm_r is None:
        return of("update", None, consistent)
    try:
        return of("update", comm_r, True)
    except CuzkError as of_update:
        try:
            return of("sealed", comm_r, consistent)
        except CuzkError as of_sealed:
            raise CuzkError(*of_update.problems, *of_sealed.problems) from None


def _open_replica(sector: Sector, which: str, comm_r: bytes | None, sector_size: Size | None, hash: Hash,
                  consistent: bool) -> Replica:
    look = _Inspection(sector, hash, consistent)
    path, folder = (sector.sealed, sector.cache) if which == "sealed" else (sector.update, sector.update_cache)
    file = look.replica(path, None if sector_size is None else sector_size.bytes)
    own = which == "sealed" or present(folder / "p_aux")        # comm_c is the same in both
    aux = look.p_aux(folder if own else sector.cache, True)
    size = None if file is None else SIZES[file.size]
    tree = None if file is None else look.tree_r(file, folder, size)
    if own and aux is not None and tree is not None and tree.root.tobytes() != aux[1]:
        look.disagree(folder / "p_aux", "compare comm_r_last with the root of tree R", tree.root.tobytes().hex(),
                      aux[1].hex(), f"p_aux or {path} is damaged or of another sector")
    found = _comm_r(aux, tree)
    if comm_r is not None and found is not None and comm_r != found:
        look.disagree(path, "compare comm_r", comm_r.hex(), found.hex(),
                      "another replica, or another sector's commitment")
    if look.problems:
        raise CuzkError(*look.problems)
    return Replica(sector, which, size, aux[0], found if consistent or comm_r is None else comm_r, tree, look.warnings)
