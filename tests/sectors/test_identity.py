"""Commitments and vanilla proofs of the reference's sectors, byte for byte; parsers on mutated input."""
import base64
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.table import SIZES, parse_size
from cuzk_cli.sectors import commitments, encoding, locate, vanilla
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
        vanilla.check(proof._replace(**{tree: paths._replace(**{field: changed})}), 0, checked.commitments, checked.size)


def test_elements_must_be_below_the_order(two_kib):
    checked, proof = two_kib
    leaf = proof.r_old.leaf.copy()
    leaf[3] = 2**64 - 1
    with pytest.raises(CuzkError, match="no field element"):
        vanilla.check(proof._replace(r_old=proof.r_old._replace(leaf=leaf)), 0, checked.commitments, checked.size)


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


@pytest.mark.parametrize("text", [b"", b"[", b"[]", b"{}", b"null", b'["x"]', b'[1]', b'["AA=="]', b"[" * 100_000, b"\xff\xfe"])
def test_bad_json(text):
    with pytest.raises(CuzkError) as raised:
        encoding.read(text, SIZES[2048], "v.json")
    assert raised.value.exit == Exit.INPUT and "v.json" in raised.value.problems[0].line()


def test_curio_s_request_object(two_kib):
    checked, proof = two_kib
    body = base64.b64encode(encoding.encode(proof, checked.size)).decode()
    text = json.dumps({"ProofType": 0, "old_r": "x", "new_r": "y", "new_d": "z", "Proofs": [body]}).encode()
    proofs, beside = encoding.read(text, checked.size)
    assert len(proofs) == 1 and beside == {"comm_r_old": "x", "comm_r_new": "y", "comm_d_new": "z"}


def test_commitments_in_every_form():
    value = bytes(range(31)) + b"\x10"
    for kind in ("comm_r", "comm_d"):
        cid = commitments.to_cid(kind, value)
        assert cid.startswith({"comm_r": "bagboea4b5abc", "comm_d": "baga6ea4seaq"}[kind])
        for text in (value.hex(), "0x" + value.hex(), base64.b64encode(value).decode(), cid, cid.upper()[:1].lower() + cid[1:]):
            assert commitments.parse(text, kind, "--x") == value
    with pytest.raises(CuzkError, match="CommD given where CommR expected"):
        commitments.parse(commitments.to_cid("comm_d", value), "comm_r", "--x")
    for bad in ("", "zz", value.hex()[:-1], "ff" * 32, "b" + "a" * 60):
        with pytest.raises(CuzkError) as raised:
            commitments.parse(bad, "comm_r", "--x")
        assert raised.value.exit == Exit.USAGE


@pytest.mark.parametrize("text, name", [("2KiB", "2KiB"), ("2k", "2KiB"), ("32g", "32GiB"), ("2048", "2KiB"), ("snap-32g", "32GiB"),
                                        ("64GIB", "64GiB"), ("512MiB", "512MiB")])
def test_sizes_as_users_write_them(text, name):
    assert parse_size(text).name == name


def test_cached_rows_of_a_large_tree(tmp_path):
    """The tree of 2 x 8^3 leaves from files that miss one and two rows gives the same paths as the whole tree."""
    rng = np.random.default_rng(1)
    leaves = rng.integers(0, 2**60, (1024, 4), dtype=np.uint64)
    arities = (8, 8, 8, 2)
    whole = Tree(leaves, arities, poseidon_batch)
    from cuzk_cli.sectors.files import SectorFile

    replica = tmp_path / "sealed"
    replica.write_bytes(leaves.tobytes())
    files = []
    for i, missing in enumerate((1, 2)):
        path = tmp_path / f"tree-{i}"
        path.write_bytes(b"".join(whole.levels[h][i * 512 // 8**h:(i + 1) * 512 // 8**h].tobytes() for h in range(missing + 1, 4)))
        assert discarded_rows(path, path.stat().st_size, 512) == missing
        files.append(SectorFile(path))
    tree = CachedTree(SectorFile(replica), files, 1024, arities, poseidon_batch)
    index = np.array([0, 511, 512, 1023, 700, 3])
    assert (tree.root == whole.root).all() and (tree.leaves(index) == leaves[index]).all()
    assert (tree.siblings(index) == whole.siblings(index)).all()
    assert cached_nodes(8**8, 2) == 37449                  # 512 MiB, the reference's file of 1,198,368 bytes
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
