"""Parameter files that are what they should be, and every way in which they may not be."""
import shutil

import numpy as np
import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.kernels import msm
from cuzk_cli.kernels.curve import P
from cuzk_cli.params import check, digests
from cuzk_cli.params.format import VECTORS, Counts, ParameterFile
from cuzk_cli.params.generate import generate
from cuzk_cli.params.locate import Circuit, Folder, locate
from cuzk_cli.params.marker import MARKER
from cuzk_cli.params.points import decode_g1, decode_g2

from .small import SLOW_FIXED_BASE, SmallCircuit, evaluate

STEM = "v28-small"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def circuit():
    return SmallCircuit(60, 3)


@pytest.fixture(scope="module")
def made(circuit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("params")
    generate(circuit, STEM, folder, "t", SLOW_FIXED_BASE, evaluate=evaluate)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "params")


def located(folder, params_digest=None, vk_digest=None):
    return locate(Circuit("snap", "2KiB", STEM, params_digest, vk_digest), Folder(folder, "--params"))


def square_root(n):
    root = pow(n, (P + 1) // 4, P)
    return root if root * root % P == n % P else None


def outside_g1(x):
    """The first point of E(Fq) from x on that is not of order r, as in the file."""
    while True:
        y = square_root(x**3 + 4)
        if y is not None:
            encoded = (x.to_bytes(48, "big") + y.to_bytes(48, "big"))
            with pytest.raises(ValueError, match="subgroup"):
                decode_g1(encoded)
            return np.frombuffer(encoded, np.uint8)
        x += 1


def outside_g2(x):
    """The same on the twist, with x in Fq: y² = x³ + 4 + 4u."""
    while True:
        a, norm = (x**3 + 4) % P, square_root((x**3 + 4) ** 2 + 16)
        for n in ([] if norm is None else [norm, -norm]):
            c0 = square_root((a + n) * pow(2, -1, P) % P)
            if c0:
                c1 = 2 * pow(c0, -1, P) % P
                encoded = b"".join(v.to_bytes(48, "big") for v in (0, x, c1, c0))
                with pytest.raises(ValueError, match="subgroup"):
                    decode_g2(encoded)
                return np.frombuffer(encoded, np.uint8)
        x += 1


def negative(encoded):
    y = int.from_bytes(bytes(encoded[48:]), "big")
    return np.concatenate([encoded[:48], np.frombuffer((P - y).to_bytes(48, "big"), np.uint8)])


def put(folder, vector, index, encoded):
    path = folder / f"{STEM}.params"
    with ParameterFile(path) as file:
        offset = file.offsets[vector] + VECTORS[vector] * index
    data = bytearray(path.read_bytes())
    data[offset:offset + len(encoded)] = bytes(encoded)
    path.write_bytes(data)
    return offset


def checked(folder):
    with ParameterFile(folder / f"{STEM}.params") as file:
        return check.check_points(file)


def refused(folder, offset, what):
    with pytest.raises(CuzkError) as raised:
        checked(folder)
    (problem,) = raised.value.problems
    assert problem.exit == Exit.PARAMETERS and f"at offset {offset}" in problem.operation and what in problem.actual
    assert problem.path.endswith(".params")


@pytest.fixture(params=[None, 16], ids=["one batch", "batches of 16"])
def batches(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(msm.Summation, "batch", staticmethod(lambda: request.param))


def test_every_point_of_good_files(made, circuit, batches):
    seen = []
    with ParameterFile(made / f"{STEM}.params") as file:
        total = check.check_points(file, lambda done, of: seen.append((done, of)))
        assert total == sum(file.counts[1:]) and seen[-1] == (total, total) and seen == sorted(seen)


@pytest.mark.parametrize("vector", VECTORS)
def test_a_point_outside_the_subgroup(folder, circuit, batches, vector):
    index = getattr(Counts.of(circuit), vector) - 2
    offset = put(folder, vector, index, outside_g2(5) if vector == "b_g2" else outside_g1(5))
    refused(folder, offset, "outside the subgroup")


def test_points_that_cancel_each_other_are_in_different_lanes(folder, monkeypatch):
    """A pair of opposite points outside the subgroup: the sum of all is right, that of each lane is not."""
    monkeypatch.setattr(msm.Summation, "batch", staticmethod(lambda: 32))
    monkeypatch.setattr(check, "_order", lambda seed, number, count: np.roll(np.arange(count), number))
    bad = outside_g1(9)
    offset = put(folder, "h", 3, bad)
    put(folder, "h", 35, negative(bad))
    refused(folder, offset, "outside the subgroup")


@pytest.mark.parametrize("vector", ["l", "b_g2"])
def test_points_that_are_none(folder, vector):
    width = VECTORS[vector]
    refused(folder, put(folder, vector, 1, [0x40] + [0] * (width - 1)), "the point at infinity")
    refused(folder, put(folder, vector, 1, [1] * width), "not on the curve")
    refused(folder, put(folder, vector, 1, [0x1A] + [255] * (width - 1)), "not below p")


def test_files(folder, circuit):
    """The digest is computed once, and remembered."""
    seen = []
    found = check.check_files(located(folder), Counts.of(circuit), lambda done, total: seen.append((done, total)))
    size = (folder / f"{STEM}.params").stat().st_size
    assert found == (Counts.of(circuit), size, digests.digest_file(folder / f"{STEM}.params"), True)
    assert seen[-1] == (size, size)
    seen.clear()
    (folder / f"{STEM}.vk").unlink()
    assert check.check_files(located(folder), Counts.of(circuit), lambda *n: seen.append(n)) == found._replace(vk=False)
    assert not seen


def test_what_the_network_published(folder, circuit):
    digest = digests.digest_file(folder / f"{STEM}.params")
    check.check_files(located(folder, "0" * 32), Counts.of(circuit))        # the folder is marked as one for tests
    (folder / MARKER).unlink()
    check.check_files(located(folder, digest), Counts.of(circuit))
    assert located(folder, digest).network_accepts is True
    with pytest.raises(CuzkError, match="published"):
        check.check_files(located(folder, "0" * 32), Counts.of(circuit))


def test_files_that_do_not_belong_together(folder, circuit):
    data = bytearray((folder / f"{STEM}.vk").read_bytes())
    data[0:96], data[96:192] = data[96:192], data[0:96]
    (folder / f"{STEM}.vk").write_bytes(data)
    with pytest.raises(CuzkError, match="verifying key") as raised:
        check.check_files(located(folder), Counts.of(circuit))
    assert raised.value.exit == Exit.PARAMETERS
    (folder / f"{STEM}.vk").unlink()
    with pytest.raises(CuzkError, match="another circuit"):
        check.check_files(located(folder), Counts.of(circuit)._replace(l=7))


def test_a_list(folder, tmp_path):
    (folder / "v28-stacked-proof-of-replication-x.vk").write_bytes(b"")
    (folder / "notes.txt").write_text("")
    known = Circuit.of("snap", next(s for b, s in check.SIZES.items() if s.name == "2KiB"))
    (folder / f"{known.stem}.params").write_bytes(bytes(1000))
    found = check.listed(Folder(folder, "--params"))
    assert [(e["kind"], e["sector_size"], e["size_bytes"]) for e in found] == [
        ("snap", "2KiB", 1000), (None, None, (folder / f"{STEM}.params").stat().st_size), (None, None, None)]
    assert found[0]["network_accepts"] is False and found[0]["published_digest"] == known.params_digest
    assert found[2]["vk"].endswith("-x.vk") and found[2]["params"] is None
    with pytest.raises(CuzkError) as raised:
        check.listed(Folder(tmp_path / "none", "--params"))
    assert raised.value.exit == Exit.PARAMETERS
