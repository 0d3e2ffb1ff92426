"""PoSt vanilla proofs: challenges, bytes and checks against the reference's, and what is refused."""
import base64
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.table import SIZES
from cuzk_cli.sectors import post

ROOT = Path(__file__).parents[2] / "fixtures"
FACTS = {kind: json.loads((ROOT / "posts" / f"{kind}-vanilla.json").read_text()) for kind in ("window", "winning")}
SIZE = SIZES[2048]


def entries(kind):
    return [(e, base64.b64decode(e["vanilla"])) for e in FACTS[kind]["sectors"]]


def index_of(kind, entry):
    return post.challenges(kind, "V1_1" if kind == "window" else "V1", SIZE, bytes.fromhex(FACTS[kind]["randomness"]),
                           entry["sector"])


@pytest.mark.parametrize("kind", ["window", "winning"])
def test_the_references_proofs(kind):
    for entry, data in entries(kind):
        assert index_of(kind, entry).tolist() == entry["challenges"]
        (proof,) = post.read(data, SIZE, kind)
        assert (proof.sector, proof.comm_r.hex()) == (entry["sector"], entry["comm_r"])
        assert post.encode(proof, SIZE) == data
        post.check(proof, SIZE, index_of(kind, entry))


@given(st.sampled_from([("window", "V1"), ("window", "V1_1"), ("winning", "V1")]), st.binary(min_size=32, max_size=32),
       st.integers(0, 2**64 - 1), st.integers(0, 5000))
def test_challenges_against_the_definition(which, randomness, sector, index):
    kind, version = which
    size, count = SIZES[32 << 30], {"window": 10, "winning": 66}[kind]
    expected = []
    for n in range(count):
        counter = index * count + n if which == ("window", "V1") else n
        digest = hashlib.sha256(randomness + sector.to_bytes(8, "little") + counter.to_bytes(8, "little")).digest()
        expected.append(int.from_bytes(digest[:8], "little") % (1 << 30))
    assert post.challenges(kind, version, size, randomness, sector, index).tolist() == expected


def test_all_forms():
    data = [d for _, d in entries("window")]
    expected = [post.encode(p, SIZE) for p in post.read(b"".join(data), SIZE, "window")]
    assert expected == data
    text = [base64.b64encode(d).decode() for d in data]
    for form in (text, [d.hex() for d in data], [list(d) for d in data], {"sectors": [{"vanilla": t} for t in text]}):
        found = post.read(json.dumps(form).encode(), SIZE, "window")
        assert [post.encode(p, SIZE) for p in found] == data


@pytest.mark.parametrize("data", [b"", b"x", b"[", b"{}", b"[]", b"[1]", b'["!"]', b"null", b'["00"]', b"[[256]]",
                                  b"[" * 100000, b'{"sectors": [1]}', b'{"sectors": [{}]}'])
def test_what_is_no_proof(data):
    with pytest.raises(CuzkError) as raised:
        post.read(data, SIZE, "window", "v.json")
    assert raised.value.exit == Exit.INPUT and "v.json" in raised.value.problems[0].line()


def test_cut_at_any_byte_and_of_another_kind():
    data = entries("window")[0][1]
    for length in (*range(0, len(data), 97), len(data) - 1):
        with pytest.raises(CuzkError):
            post.read(data[:length], SIZE, "window")
    with pytest.raises(CuzkError, match="66 challenges"):
        post.read(data, SIZE, "winning")


def changed(proof, name, index, value):
    if name in ("comm_c", "comm_r_last"):
        words = getattr(proof, name).copy()
        words[0] ^= np.uint64(1)
        return proof._replace(**{name: words})
    array = getattr(proof.paths, name).copy()
    array[index] = value(array[index])
    return proof._replace(paths=proof.paths._replace(**{name: array}))


FLIP = lambda words: words ^ np.uint64(1)


@pytest.mark.parametrize("name, index, value, said", [
    ("comm_c", None, None, "comm_r"), ("comm_r_last", None, None, "comm_r_last"),
    ("leaf", (3, 0), FLIP, "challenge 3: the path does not lead to its root"),
    ("siblings", (9, 13, 0), FLIP, "challenge 9: the path does not lead to its root"),
    ("root", (2, 0), FLIP, "challenge 2: the path does not lead to its root"),
    ("position", (4, 1), lambda p: (p + 1) % 8, "challenge 4: the path is for another leaf"),
    ("leaf", (0,), lambda w: w | np.uint64(2**64 - 1), "leaf is no field element"),
    ("siblings", (0, 0), lambda w: w | np.uint64(2**64 - 1), "sibling is no field element")])
def test_one_change_is_found(name, index, value, said):
    entry, data = entries("window")[0]
    (proof,) = post.read(data, SIZE, "window")
    with pytest.raises(CuzkError, match=said):
        post.check(changed(proof, name, index, value), SIZE, index_of("window", entry))


def test_a_proof_for_other_challenges():
    entry, data = entries("window")[0]
    (proof,) = post.read(data, SIZE, "window")
    with pytest.raises(CuzkError, match="for another leaf"):
        post.check(proof, SIZE, index_of("window", {"sector": 2}))
    with pytest.raises(CuzkError, match="its challenges: expected 9, actual 10"):
        post.check(proof, SIZE, index_of("window", entry)[:9])
