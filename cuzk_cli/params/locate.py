"""Where parameter files are looked for, what is said when they are missing, and whether the network knows them.

    --params DIR  >  FIL_PROOFS_PARAMETER_CACHE  >  /var/tmp/filecoin-proof-parameters
    --test-params: the folder of test parameters in the user's cache, seed "cuzk"
"""
from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Mapping, NamedTuple

from ..errors import CuzkError, Exit, fail
from ..kernels.runtime import cache_dir
from ..protocol.table import Size, parameter_stem, published_digests
from . import digests
from .format import VerifyingKey
from .marker import DEFAULT_FOLDER, FOLDER_VARIABLE, MARKER, Marker, read_marker

TEST_SEED = "cuzk"


class Circuit(NamedTuple):
    """The parameter files of one circuit, as the network names them."""

    kind: str                   # "snap"
    sector_size: str            # "2KiB"
    stem: str                   # file name without its ending
    params_digest: str | None   # published digests, None for circuits that the network has no parameters of
    vk_digest: str | None

    @classmethod
    def of(cls, kind: str, size: Size) -> "Circuit":
        return cls(kind, size.name, parameter_stem(kind, size), *published_digests(kind, size))


class Folder(NamedTuple):
    """A folder and what named it."""

    path: Path
    origin: str     # "--params", "FIL_PROOFS_PARAMETER_CACHE", "the default folder" or "--test-params"


def test_folder() -> Path:
    """The folder of `--test-params`."""
    return cache_dir() / "test-params"


def parameter_folder(option: str | os.PathLike | None = None, test: bool = False,
                     environ: Mapping[str, str] = os.environ) -> Folder:
    """The folder that the user means. Raises CuzkError (USAGE) for two at once."""
    if option is not None and test:
        raise fail(Exit.USAGE, "choose the folder of parameters", None, "one of --params and --test-params", "both")
    if test:
        return Folder(test_folder(), "--test-params")
    if option is not None:
        return Folder(Path(option), "--params")
    if environ.get(FOLDER_VARIABLE):
        return Folder(Path(environ[FOLDER_VARIABLE]), FOLDER_VARIABLE)
    return Folder(DEFAULT_FOLDER, "the default folder")


class Located(NamedTuple):
    """The files of one circuit in one folder."""

    folder: Folder
    circuit: Circuit
    params: Path
    vk: Path
    marker: Marker | None       # of a folder of test parameters

    @property
    def warnings(self) -> list[str]:
        """What a user of these files should be told once."""
        if self.marker is None or self.folder.origin == "--test-params":
            return []
        return [f"{self.folder.path}: parameters for tests ({MARKER}); the network does not accept proofs under them"]

    @property
    def digest(self) -> str | None:
        """The remembered digest of the `.params` file."""
        return digests.remembered(self.params)

    @property
    def network_accepts(self) -> bool | None:
        """Does the network accept proofs under these parameters? None: nobody has looked.

        False in a marked folder and for a digest that differs from the published one, True where a remembered digest
        equals it.
        """
        if self.marker is not None:
            return False
        digest, published = self.digest, self.circuit.params_digest
        return None if digest is None or published is None else digest == published

    def require_params(self, size: int | None = None) -> Path:
        """The `.params` file; `size` in bytes is for the message.

        Raises CuzkError (PARAMETERS), naming size, digest and the command that fetches it, where it is missing.
        """
        if not os.path.lexists(self.params):
            raise self._missing(self.params, size, self.circuit.params_digest)
        return self.params

    def require_key(self, size: int | None = None) -> Path:
        """The `.vk` file, or else the `.params` file, whose head is the same. Raises CuzkError as `require_params`."""
        if os.path.lexists(self.vk):
            return self.vk
        if os.path.lexists(self.params):
            return self.params
        raise self._missing(self.vk, size, self.circuit.vk_digest)

    def _missing(self, path: Path, size: int | None, digest: str | None) -> CuzkError:
        circuit = self.circuit
        expected = f"the parameters of {circuit.kind} {circuit.sector_size}"
        if size is not None:
            expected += f", {size} bytes"
        expected += f", BLAKE2b {digest}" if digest else ", of which the network has published none"
        where = "" if self.folder.path.is_dir() else f"no folder {self.folder.path}, "
        if self.folder.origin == "--test-params":
            hint = f"make them with: cuzk prove {circuit.kind} SECTOR --test-params"
        elif digest:
            folder = shlex.quote(os.path.abspath(self.folder.path))
            hint = f"fetch them with: {FOLDER_VARIABLE}={folder} lotus fetch-params {circuit.sector_size}"
        else:
            hint = (f"for tests: --test-params, or cuzk params generate {circuit.kind} --sector-size "
                    f"{circuit.sector_size} --insecure-seed SEED --out DIR, then --params DIR")
        return fail(Exit.PARAMETERS, "find parameters", path, expected,
                    f"{where}no such file in {self.folder.origin}", hint)


def locate(circuit: Circuit, folder: Folder) -> Located:
    """The files of `circuit` in `folder`, there or not."""
    path = folder.path
    return Located(folder, circuit, path / f"{circuit.stem}.params", path / f"{circuit.stem}.vk", read_marker(path))


def network_accepts_key(circuit: Circuit, key: VerifyingKey) -> bool | None:
    """Does the network accept proofs that verify under `key`, read from a file? It is small: its digest is computed here.

    False for a key in a marked folder and for one that differs from the published one, None where none is published.
    """
    if key.path is not None and read_marker(Path(key.path).parent) is not None:
        return False
    state = digests.new_hash()
    state.update(key.raw)
    return None if circuit.vk_digest is None else digests.digest_text(state) == circuit.vk_digest
