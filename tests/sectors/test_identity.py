"""Commitments and vanilla proofs of the reference's sectors, byte for byte; parsers on mutated input."""
import base64
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.fr import R_ORDER
from cuzk_cli.protocol.table import SIZES, parse_size
from cuzk_cli.sectors import commitments, encoding, locate, vanilla
from cuzk_cli.sectors.files import SectorFile
from cuzk_cli.sectors.preflight import make_vanilla, preflight
from cuzk_cli.sectors.trees import CachedTree, Tree, cached_nodes, discarded_rows, sha_pairs
from cuzk_cli.protocol.poseidon import poseidon_batch

ROOT = Path(__file__).parents[2] / "fixtures" / "sectors"
SECTORS = [("2KiB", 1), ("2KiB", 2), ("4KiB", 1), ("16KiB", 1), ("32KiB", 1)]


@pytest.mark.parametrize("size, number", SECTORS)
def test_vanilla_proofs_are_the_reference_s(size, number):
    checked = preflight(locate.find(f"{ROOT}/{size}/s-t01000-{number}"))
    facts = json.loads((ROOT / size / f"s-t01000-{number}.json").read_text())
    for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
        assert getattr(checked.commitments, name).hex() == facts[name]
    file = checked.sector.update_cache / "snap-vproof.json"
    expected = json.loads(file.read_text())
    assert checked.warnings == [] and len(expected) == checked.size.snap_partitions
    decoded, _ = encoding.read(file.read_bytes(), checked.size)
    for k, text in enumerate(expected):
        proof = make_vanilla(checked, k)
        assert encoding.encode(proof, checked.size) == base64.b64decode(text)
        assert encoding.encode(decoded[k], checked.size) == base64.b64decode(text)
        vanilla.check(proof, k, checked.commitments, checked.size)


@pytest.fixture(scope="module")
def two_kib():
    checked = preflight(locate.find(f"{ROOT}/2KiB/s-t01000-1"))
    return checked, make_vanilla(checked, 0)


@pytest.mark.parametrize("field", ["comm_c", "apex_leaves"])
def test_a_changed_element_is_found(two_kib, field):
    checked, proof = two_kib
    changed = getattr(proof, field).copy()
    changed.reshape(-1)[0] ^= np.uint64(1)
    with pytest.raises(CuzkError) as raised:
        vanilla.check(proof._replace(**{field: changed}), 0, checked.commitments, checked.size)
    assert raised.value.exit == Exit.INPUT


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["r_old", "d_new", "r_new"]), st.sampled_from(["root", "leaf", "siblings", "position"]),
       st.integers(0, 10**6), st.integers(0, 50))
def test_a_changed_path_is_found(two_kib, tree, field, where, bit):
    checked, proof = two_kib
    paths = getattr(proof, tree)
    changed = getattr(paths, field).copy()
    flat = changed.reshape(-1)
    flat[where % len(flat)] ^= flat.dtype.type(1 if field == "position" else 1 << bit)
    with pytest.raises(CuzkError):
        other = proof._replace(**{tree: paths._replace(**{field: changed})})
        vanilla.check(other, 0, checked.commitments, checked.size)


def test_elements_must_be_below_the_order(two_kib):
    checked, proof = two_kib
    for field, at in (("leaf", 3), ("siblings", (3, 2)), ("root", 3)):
        changed = getattr(proof.r_old, field).copy()
        changed[at] = np.frombuffer(R_ORDER.to_bytes(32, "little"), "<u8")
        with pytest.raises(CuzkError, match="partition 0, challenge 3: .*old tree R is no field element"):
            other = proof._replace(r_old=proof.r_old._replace(**{field: changed}))
            vanilla.check(other, 0, checked.commitments, checked.size)


EDGES = [0, 1, R_ORDER - 1, R_ORDER, R_ORDER + 1, 2**256 - 1]


@given(st.lists(st.sampled_from(EDGES) | st.integers(0, 2**256 - 1), min_size=1))
def test_what_is_not_below_the_order(values):
    words = np.frombuffer(b"".join(v.to_bytes(32, "little") for v in values), "<u8").reshape(-1, 4)
    assert vanilla.not_below_r(words).tolist() == [v >= R_ORDER for v in values]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_parsers_survive_mutation(data):
    size = SIZES[2048]
    original = (ROOT / "2KiB" / "update-cache" / "s-t01000-1" / "snap-vproof.json").read_bytes()
    if data.draw(st.booleans()):
        original = base64.b64decode(json.loads(original)[0])
    mutated = bytearray(original)
    for _ in range(data.draw(st.integers(0, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    mutated = bytes(mutated[:data.draw(st.integers(0, len(mutated)))]) if data.draw(st.booleans()) else bytes(mutated)
    try:
        proofs, _ = encoding.read(mutated, size)
    except CuzkError as error:
        assert error.exit == Exit.INPUT
    else:
        assert len(proofs) == 1


@pytest.mark.parametrize("text", [b"", b"[", b"[]", b"{}", b"null", b'["x"]', b'[1]', b'["AA=="]', b"[" * 100_000,
                                  b"\xff\xfe"])
def test_bad_json(text):
    with pytest.raises(CuzkError) as raised:
        encoding.read(text, SIZES[2048], "v.json")
    assert raised.value.exit == Exit.INPUT and "v.json" in raised.value.problems[0].line()


def test_curio_s_request_object(two_kib):
    """Its commitments are Go's [32]byte: lists of numbers. Text is taken too, anything else refused."""
    checked, proof = two_kib
    c, body = checked.commitments, base64.b64encode(encoding.encode(proof, checked.size)).decode()
    request = {"ProofType": 0, "old_r": list(c.comm_r_old), "new_r": commitments.to_cid("comm_r", c.comm_r_new),
               "new_d": c.comm_d_new.hex(), "Proofs": [body]}
    proofs, beside = encoding.read(json.dumps(request).encode(), checked.size)
    assert len(proofs) == 1 and beside == {name: value.hex() for name, value in c._asdict().items()}
    for change in ({"old_r": [256] * 32}, {"old_r": [1] * 31}, {"old_r": {"/": "x"}}, {"new_r": request["new_d"][:-2]},
                   {"new_d": request["new_r"]}, {"ProofType": 3}, {"Proofs": [{}]}, {"Proofs": [[1, 2, 300]]}):
        with pytest.raises(CuzkError) as raised:
            encoding.read(json.dumps(request | change).encode(), checked.size, "request.json")
        assert raised.value.exit == Exit.INPUT
        assert all(p.path == "request.json" for p in raised.value.problems)


def test_every_form_of_vanilla_proofs(two_kib):
    checked, proof = two_kib
    data = encoding.encode(proof, checked.size)
    for text in (data, json.dumps([data.hex()]), json.dumps([data.hex().upper()]), json.dumps([list(data)]),
                 "\ufeff" + json.dumps([base64.b64encode(data).decode()], indent=1)):
        proofs, _ = encoding.read(text if isinstance(text, bytes) else text.encode(), checked.size)
        assert [encoding.encode(p, checked.size) for p in proofs] == [data]


@pytest.mark.parametrize("first", [b"[", b"{", b" [", b"n", b"\n{"])
def test_bytes_that_begin_like_json_are_bytes(two_kib, first):
    checked, proof = two_kib
    data = first + encoding.encode(proof, checked.size)[len(first):]
    proofs, _ = encoding.read(data, checked.size)
    assert proofs[0].comm_c.tobytes().startswith(first)


def test_bytes_of_another_length(two_kib):
    checked, proof = two_kib
    data = encoding.encode(proof, checked.size)
    for bad in (data[:-1], data[:41], data + b"x", data * 3):
        with pytest.raises(CuzkError, match=f"{len(bad)} bytes") as raised:
            encoding.read(bad, checked.size, "v.bin")
        assert raised.value.exit == Exit.INPUT


def test_commitments_in_every_form():
    value = bytes(range(31)) + b"\x10"
    for kind in ("comm_r", "comm_d"):
        cid = commitments.to_cid(kind, value)
        assert cid.startswith({"comm_r": "bagboea4b5abc", "comm_d": "baga6ea4seaq"}[kind])
        for text in (value.hex(), "0x" + value.hex(), base64.b64encode(value).decode(), cid):
            assert commitments.parse(text, kind, "--x") == value
    with pytest.raises(CuzkError, match="CommD given where CommR expected"):
        commitments.parse(commitments.to_cid("comm_d", value), "comm_r", "--x")
    for bad in ("", "zz", value.hex()[:-1], "ff" * 32, "b" + "a" * 60, "b" + "é" * 60, "é" * 44, "é" * 64):
        with pytest.raises(CuzkError) as raised:
            commitments.parse(bad, "comm_r", "--x")
        assert raised.value.exit == Exit.USAGE


@pytest.mark.parametrize("text, name", [("2KiB", "2KiB"), ("2k", "2KiB"), ("32g", "32GiB"), ("2048", "2KiB"),
                                        ("snap-32g", "32GiB"), ("64GIB", "64GiB"), ("512MiB", "512MiB")])
def test_sizes_as_users_write_them(text, name):
    assert parse_size(text).name == name


def test_cached_rows_of_a_large_tree(tmp_path):
    """The tree of 2 x 8^3 leaves from files that miss one and two rows gives the same paths as the whole tree."""
    rng = np.random.default_rng(1)
    leaves = rng.integers(0, 2**60, (1024, 4), dtype=np.uint64)
    arities = (8, 8, 8, 2)
    whole = Tree(leaves, arities, poseidon_batch)
    replica = tmp_path / "sealed"
    replica.write_bytes(leaves.tobytes())
    files = []
    for i, missing in enumerate((1, 2)):
        path = tmp_path / f"tree-{i}"
        rows = [whole.levels[h][i * 512 // 8**h:(i + 1) * 512 // 8**h] for h in range(missing + 1, 4)]
        path.write_bytes(b"".join(row.tobytes() for row in rows))
        assert discarded_rows(path, path.stat().st_size, 512) == missing
        files.append(SectorFile(path))
    tree = CachedTree(SectorFile(replica), files, 1024, arities, poseidon_batch)
    index = np.array([0, 511, 512, 1023, 700, 3])
    assert (tree.root == whole.root).all() and (tree.leaves(index) == leaves[index]).all()
    assert (tree.siblings(index) == whole.siblings(index)).all()
    assert cached_nodes(8**8, 2) == 37449                  # 512 MiB, the reference's file of 1,198,368 bytes
    for chosen in (index[index < 512], index[index >= 512]):   # no leaf of the other file
        assert (tree.siblings(chosen) == whole.siblings(chosen)).all()
    broken = leaves.copy()
    broken[700, 0] ^= np.uint64(1)
    replica.write_bytes(broken.tobytes())
    with pytest.raises(CuzkError, match="is damaged"):
        tree.siblings(index)


def test_sha_pairs():
    import hashlib

    pair = np.arange(16, dtype=np.uint64).reshape(2, 2, 4)
    for got, row in zip(sha_pairs(pair), pair):
        want = bytearray(hashlib.sha256(row.tobytes()).digest())
        want[31] &= 0x3F
        assert got.tobytes() == bytes(want)


def test_rows_that_were_cut_off_are_refused_before_they_are_rebuilt(tmp_path):
    """The root alone would mean to hash the whole replica again for every challenge."""
    for name in ("sealed", "rows"):
        (tmp_path / name).write_bytes(bytes(32))
    with pytest.raises(CuzkError, match="7 rows") as raised:
        CachedTree(SectorFile(tmp_path / "sealed"), [SectorFile(tmp_path / "rows")], 8**8, (8,) * 8, poseidon_batch)
    assert raised.value.exit == Exit.INPUT and str(tmp_path / "rows") in raised.value.problems[0].line()


def test_paths_do_not_depend_on_the_batch(monkeypatch):
    checked = preflight(locate.find(f"{ROOT}/32KiB/s-t01000-1"))
    names = [checked.sector.cache / f"sc-02-data-tree-r-last-{i}.dat" for i in range(16)]
    index = np.random.default_rng(2).integers(0, 1024, 50)
    replica, files = SectorFile(checked.sector.sealed), [SectorFile(name) for name in names]
    tree = CachedTree(replica, files, 1024, checked.size.arities, poseidon_batch)
    expected = checked.tree_r_old.siblings(index)
    for batch in (1, 64 * 7, 1 << 20):
        monkeypatch.setattr("cuzk_cli.sectors.trees._BATCH", batch)
        assert (tree.siblings(index) == expected).all()


# what storage-proofs-update src/challenges.rs asserts, for the comm_r_new of its test seed
CHALLENGES = {
    ("2KiB", 0): [53, 51, 56, 3, 0], ("4KiB", 0): [117, 25, 62, 0, 72],
    ("16KiB", 1): [286, 308, 493, 510, 508], ("32KiB", 1): [542, 666, 955, 927, 911],
    ("8MiB", 1): [78878, 130797, 112892, 93994, 78379], ("16MiB", 1): [209950, 163702, 175679, 224741, 197410],
    ("512MiB", 0): [1019125, 116736, 706220, 59698, 799498],
    ("512MiB", 15): [16388544, 15794686, 16637142, 16319148, 16328348],
    ("32GiB", 1): [109168525, 127316247, 80331041, 97065716, 72310052],
    ("32GiB", 15): [1038629497, 1053983614, 1030421316, 1027373887, 1068685433],
    ("64GiB", 15): [2045262457, 2036941247, 2136653521, 2091356007, 2147167623],
}


@pytest.mark.parametrize("name, partition", CHALLENGES)
def test_challenges(name, partition):
    size = parse_size(name)
    comm_r_new = bytes.fromhex("101cbe4b9c42604f04c703c396f788c6cb2d6d7d58f45430b12eb2edd640076c")
    found = vanilla.challenges(size, comm_r_new, partition)
    assert found[:5].tolist() == CHALLENGES[name, partition] and len(found) == size.snap_challenges
    share = size.nodes // size.snap_partitions
    assert (found // share == partition).all()
