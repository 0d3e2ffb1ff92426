"""From messages and JSON to requests, and back."""
import json

import pytest

from cuzk_cli.daemon import requests
from cuzk_cli.daemon.proto import control, proving
from cuzk_cli.daemon.roots import Roots
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.prove import snap
from cuzk_cli.prove.urgency import Urgency
from cuzk_cli.protocol.table import SIZES, parse_size
from cuzk_cli.sectors.commitments import to_cid

from ..cli.fixed import FACTS, SECTOR, STORAGE, VANILLA, copy
from .conftest import COMMITMENTS, PROOFS
from .conftest import snap as fields

ROOTS = Roots([str(STORAGE)])


def asked(**more) -> requests.Asked:
    return requests.from_message(proving.SubmitProofRequest(**fields(**more)))


def problems(function, *arguments) -> dict:
    with pytest.raises(CuzkError) as found:
        function(*arguments)
    return {p.path: p for p in found.value.problems}


# ---- curio's messages
def test_snap_can_be_prepared():
    """The published vanilla proofs, as curio sends them."""
    prepared = asked().request.prepare()
    assert (prepared.miner, prepared.number, prepared.name, prepared.size.name) == (1000, 1, "s-t01000-1", "2KiB")
    assert prepared.partitions == [0] and prepared.commitments._asdict() == COMMITMENTS
    assert asked(miner_id=0, sector_number=0).request.prepare().miner is None


def test_a_vanilla_proof_that_is_none():
    for bad in (b"x", PROOFS[0][:-1], PROOFS[0] + b"x", b"[]", b"{}"):
        with pytest.raises(CuzkError) as found:
            asked(vanilla_proofs=[bad]).request.prepare()
        assert found.value.exit == Exit.INPUT


def test_the_size_by_the_registered_proof():
    for name, number in (("8MiB", 1), ("512MiB", 2), ("32GiB", 3), ("64GiB", 4)):
        proofs = [b"x"] * parse_size(name).snap_partitions
        for size in (0, parse_size(name).bytes):        # curio's market leaves the size out
            found = asked(sector_size=size, registered_proof=number, vanilla_proofs=proofs)
            assert found.request.sector_size == name


def test_commitments_as_binary_cids():
    """As curio sent them once."""
    import base64

    def binary(kind: str, value: bytes) -> bytes:
        text = to_cid(kind, value)[1:].upper()
        return base64.b32decode(text + "=" * (-len(text) % 8))

    found = asked(comm_r_old=binary("comm_r", COMMITMENTS["comm_r_old"])).request
    assert found.comm_r_old == COMMITMENTS["comm_r_old"].hex()
    with pytest.raises(CuzkError, match="CommR given where CommD expected"):
        asked(comm_d_new=binary("comm_r", COMMITMENTS["comm_r_old"]))


def test_priorities():
    assert [asked(priority=n).priority for n in range(5)] == [None, Urgency.LOW, Urgency.NORMAL, Urgency.HIGH,
                                                             Urgency.CRITICAL]


def test_content():
    """What is asked for, without how and by whom; a change of any field is another content."""
    same = asked().content
    assert same == asked(request_id="a", priority=4).content
    changes = [dict(sector_number=2), dict(miner_id=2), dict(randomness=b"x"), dict(partition_index=1),
               dict(vanilla_proof=b"x"), dict(vanilla_proofs=[PROOFS[0] + b"x"]),
               dict(comm_r_old=COMMITMENTS["comm_r_new"])]
    assert len({same, *(asked(**change).content for change in changes)}) == len(changes) + 1


# ---- circuits
@pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)
def test_circuits(size):
    for kind in requests.QUEUES:
        assert requests.parse_circuit(requests.circuit_id(kind, size)) == (kind, size)
    assert requests.circuit_id("window", parse_size("32GiB")) == "wpost-32g"


# ---- jobs as JSON
def job(sent: bytes = b"", roots: Roots = ROOTS, **more):
    return requests.from_job(json.dumps({"kind": "snap", **more}), sent, roots)[0]


def test_a_sector():
    assert job(sector=str(SECTOR)).prepare().name == "s-t01000-1"
    assert job(sector="s-t01000-1").prepare().commitments._asdict() == COMMITMENTS
    assert job(sector=str(SECTOR), partitions=[0], sector_size=None).partitions == (0,)
    assert job(sector="s-t01000-1", storage=[str(STORAGE)]).storage == (str(STORAGE),)


def test_vanilla_proofs():
    given = {name: FACTS[name] for name in COMMITMENTS} | {"sector_size": "2KiB"}
    for found in (job(VANILLA.read_bytes(), **given), job(**given, vanilla=str(VANILLA))):
        assert found.prepare().commitments._asdict() == COMMITMENTS


@pytest.mark.parametrize("text", ["", "x", "[]", "null", "{}", '{"kind": 1}', '{"kind": "nope"}', '{"kind": []}',
                                  "[" * 9999])
def test_what_is_no_job(text):
    with pytest.raises(CuzkError) as found:
        requests.from_job(text, b"", ROOTS)
    assert found.value.exit == Exit.USAGE


@pytest.mark.parametrize("field, value", [
    ("sector", 1), ("sector", ""), ("sector", "a/s-t01000-1"), ("sector", "../s-t01000-1"), ("sector", "x" * 5000),
    ("sector", "a\0b"), ("sector_size", 2048), ("partitions", "0"), ("partitions", [-1]), ("partitions", [True]),
    ("partitions", [0] * 65), ("vanilla", "-"), ("vanilla", "v.json"), ("vanilla", ["/x"]), ("storage", []),
    ("storage", "/x"), ("storage", ["x"]), ("h", 1), ("nope", 1), ("sector_id", [1, 2])])
def test_a_field_that_is_none(field, value):
    found = problems(lambda: job(**{"sector": str(SECTOR), field: value}))
    assert field in found and found[field].exit == Exit.USAGE


def test_nothing_to_prove():
    assert "sector" in problems(lambda: job(sector_size="2KiB"))
    assert "vanilla" in problems(lambda: job(b"x", vanilla=str(VANILLA)))


def test_paths_cannot_leave_the_storage(tmp_path):
    inside = copy(tmp_path / "in")
    outside = copy(tmp_path / "out")
    roots = Roots([str(tmp_path / "in")])
    assert job(roots=roots, sector=str(inside)).prepare().number == 1
    for sector in (outside, tmp_path / "in" / ".." / "out" / "s-t01000-1", SECTOR):
        found = problems(lambda: job(roots=roots, sector=str(sector)))
        assert found and {p.exit for p in found.values()} == {Exit.INPUT}
    found = problems(lambda: job(roots=roots, sector="s-t01000-1", storage=[str(tmp_path / "out")]))
    assert str(tmp_path / "out/sealed/s-t01000-1") in found
    assert problems(lambda: job(roots=roots, vanilla=str(VANILLA)))
    assert problems(lambda: job(roots=Roots([]), sector="s-t01000-1"))
    # a link in the place of a replica, and of one file in a cache
    for name in ("update/s-t01000-1", "cache/s-t01000-1/p_aux"):
        (tmp_path / "in" / name).unlink()
        (tmp_path / "in" / name).symlink_to(tmp_path / "out" / name)
    found = problems(lambda: job(roots=roots, sector=str(inside)))
    assert set(found) == {str(tmp_path / "in" / name) for name in ("update/s-t01000-1", "cache/s-t01000-1/p_aux")}
    assert job(roots=Roots([str(tmp_path)]), sector=str(inside)).prepare().number == 1


def test_there_and_back(monkeypatch):
    """What prove has becomes a job that asks for the same."""
    monkeypatch.chdir(STORAGE)
    for request in (snap.Request(str(SECTOR)), snap.Request("./s-t01000-1"), snap.Request("s-t01000-1"),
                    snap.Request("s-t01000-1", (".",)), snap.Request(str(SECTOR), vanilla=str(VANILLA)),
                    snap.Request(vanilla=VANILLA.read_bytes(), sector_size="2k", partitions=(0,),
                                 **{name: FACTS[name] for name in COMMITMENTS})):
        made, vanilla = requests.to_job(request)
        again, _ = requests.from_job(json.dumps(made), vanilla, ROOTS)
        first, second = request.prepare(), again.prepare()
        assert (first.identity(), first.name, first.number) == (second.identity(), second.name, second.number)


def test_submit():
    message = control.SubmitRequest(request_id="a", priority="high", deadline=1e9, job=json.dumps(
        {"kind": "snap", "sector": str(SECTOR)}))
    found = requests.from_submit(message, ROOTS)
    assert (found.id, found.priority, found.deadline, found.held) == ("a", Urgency.HIGH, 1e9, 0)
    message = control.SubmitRequest(request_id="\n", priority="x", deadline=float("nan"), job="{}")
    assert set(problems(requests.from_submit, message, ROOTS)) == {"request_id", "priority", "deadline", "kind"}
