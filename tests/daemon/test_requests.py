"""From messages and JSON to requests, and back."""
import json

import pytest

from cuzk_cli.daemon import requests
from cuzk_cli.daemon.proto import control, proving
from cuzk_cli.daemon.roots import Roots
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.prove import porep, snap
from cuzk_cli.prove import post as post_requests
from cuzk_cli.prove.urgency import Urgency
from cuzk_cli.protocol.table import SIZES, parse_size
from cuzk_cli.sectors.commitments import to_cid

from ..cli.fixed import FACTS, FIXTURES, SECTOR, STORAGE, VANILLA, copy
from .conftest import COMMITMENTS, POSTS, PROOFS, post
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


# ---- PoSts
def posted(kind: str, **more) -> requests.Asked:
    return requests.from_message(proving.SubmitProofRequest(**post(kind, **more)))


@pytest.mark.parametrize("kind", ["window", "winning"])
def test_a_post_can_be_prepared(kind):
    """The published vanilla proofs, as curio sends them."""
    prepared = posted(kind).request.prepare()
    assert (prepared.kind, prepared.miner, prepared.size.name, prepared.partitions) == (kind, 1000, "2KiB", [0])
    assert [facts.number for facts in prepared.sectors] == [entry["sector"] for entry in POSTS[kind]["sectors"]]
    want = json.loads((FIXTURES / "circuits" / f"{kind}-2KiB.json").read_text())["partitions"][0]
    assert [w.tobytes().hex() for w in prepared.public_inputs(0)] == want["public_inputs"]


def test_a_post_without_a_registered_proof_is_of_the_newest_version():
    assert posted("window", registered_proof=0).request.prepare().registered.version == "V1_1"
    assert posted("winning", sector_size=2048, registered_proof=0).request.prepare().registered.version == "V1"


def test_partitions_of_the_first_version_have_challenges_of_their_own():
    """Whose challenges hang on the place among all sectors: the second partition's proofs are for others."""
    v1 = posted("window", registered_proof=5, partition_index=1).request
    assert v1.before == parse_size("2KiB").window_sectors
    with pytest.raises(CuzkError, match="is for another leaf|challenge"):
        v1.prepare()
    ours = post_requests.Request("window", (post_requests.Wanted(str(SECTOR)),), POSTS["window"]["randomness"],
                                 replica="sealed", registered_proof="5")
    first = ours.prepare()
    sent = tuple(first.vanilla())
    assert posted("window", registered_proof=5, vanilla_proofs=sent).request.prepare().public_inputs(0).tolist() \
        == first.public_inputs(0).tolist()
    moved = posted("window", registered_proof=5, vanilla_proofs=sent, partition_index=1).request
    with pytest.raises(CuzkError):
        moved.prepare()
    # in later versions it changes nothing
    later = posted("window", partition_index=1).request.prepare()
    assert later.public_inputs(0).tolist() == posted("window").request.prepare().public_inputs(0).tolist()


@pytest.mark.parametrize("kind, change, field", [
    ("window", dict(randomness=b""), "randomness"), ("winning", dict(randomness=b"x" * 33), "randomness"),
    ("window", dict(registered_proof=3), "registered_proof"),
    ("winning", dict(registered_proof=10), "registered_proof"),
    ("window", dict(vanilla_proofs=[]), "vanilla_proofs"),
    ("window", dict(vanilla_proofs=[b"x"] * 3), "vanilla_proofs"),
    ("winning", dict(vanilla_proofs=[b"x"] * 2), "vanilla_proofs"),
    ("winning", dict(partition_index=1), "partition_index"),
    ("window", dict(sector_size=0, registered_proof=0), "sector_size")])
def test_a_bad_post(kind, change, field):
    found = problems(lambda: posted(kind, **change))
    assert field in found and found[field].exit == Exit.USAGE


def test_a_post_whose_vanilla_proof_is_none():
    for bad in (b"x", b"[1]", post("winning")["vanilla_proofs"][0][:-1]):
        with pytest.raises(CuzkError) as found:
            posted("winning", vanilla_proofs=[bad]).request.prepare()
        assert found.value.exit == Exit.INPUT


# ---- PoRep
def replica(**more) -> requests.Asked:
    return requests.from_message(proving.SubmitProofRequest(**dict(
        proof_kind=1, sector_size=2048, registered_proof=5, vanilla_proof=b'{"SectorNum":1}', sector_number=1,
        miner_id=1000) | more))


def test_porep():
    request = replica().request
    assert (request.kind, request.c1, request.miner, request.sector_number) == ("porep", b'{"SectorNum":1}', "1000", 1)
    assert (request.registered_proof, request.sector_size, request.label) == ("5", "2KiB", "s-t01000-1")
    unknown = replica(sector_number=0, miner_id=0, registered_proof=0).request
    assert (unknown.miner, unknown.sector_number, unknown.registered_proof, unknown.label) == (None, None, None, "c1")
    assert replica(registered_proof=8, sector_size=0).request.sector_size == "32GiB"
    assert "vanilla_proof" in problems(lambda: replica(vanilla_proof=b""))
    assert "registered_proof" in problems(lambda: replica(registered_proof=8))
    for bad in (b"x", b"{}", b'{"SectorNum":1}', b"[" * 9999, b"\0" * 4096):
        with pytest.raises(CuzkError) as found:
            replica(vanilla_proof=bad).request.prepare()
        assert found.value.exit == Exit.INPUT


def test_a_replica_can_be_prepared():
    """The published output of phase 1, in curio's wrapper, and the facts beside it compared."""
    data = (STORAGE / "s-t01000-1.c1.json").read_bytes()
    prepared = replica(vanilla_proof=data).request.prepare()
    assert (prepared.kind, prepared.miner, prepared.number, prepared.partitions) == ("porep", 1000, 1, [0])
    assert prepared.known.comm_r.hex() == POSTS["window"]["sectors"][0]["comm_r"]
    for change in (dict(miner_id=1001), dict(sector_number=2), dict(registered_proof=10)):
        with pytest.raises(CuzkError) as found:
            replica(vanilla_proof=data, **change).request.prepare()
        assert found.value.exit == Exit.INPUT


def test_porep_there_and_back(tmp_path):
    (tmp_path / "c1.json").write_bytes(b"{}")
    request = porep.Request(str(tmp_path / "c1.json"), miner="t01000", sector_number=7, ticket="00" * 32, partitions=(0,))
    made, sent = requests.to_job(request, here=True)
    again, _ = requests.from_job(json.dumps(made), sent, ROOTS)
    assert sent == b"{}" and again == request._replace(c1=sent)
    by_path = json.dumps({"kind": "porep", "c1": str(tmp_path / "c1.json")})
    assert requests.from_job(by_path, b"", Roots([str(tmp_path)]))[0].c1 == str(tmp_path / "c1.json")
    assert problems(requests.from_job, by_path, b"", ROOTS)
    assert "c1" in problems(requests.from_job, '{"kind": "porep"}', b"", ROOTS)
    assert "c1" in problems(requests.from_job, by_path, b"x", Roots([str(tmp_path)]))


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
    ("partitions", [0] * 4097), ("vanilla", "-"), ("vanilla", "v.json"), ("vanilla", ["/x"]), ("storage", []),
    ("storage", "/x"), ("storage", ["x"]), ("h", 1), ("nope", 1), ("sector_id", [1, 2])])
def test_a_field_that_is_none(field, value):
    found = problems(lambda: job(**{"sector": str(SECTOR), field: value}))
    assert field in found and found[field].exit == Exit.USAGE


def test_nothing_to_prove():
    assert "vanilla" in problems(lambda: job(sector_size="2KiB"))
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
        made, vanilla = requests.to_job(request, here=True)
        again, _ = requests.from_job(json.dumps(made), vanilla, ROOTS)
        first, second = request.prepare(), again.prepare()
        assert (first.identity(), first.name, first.number) == (second.identity(), second.name, second.number)


def test_posts_there_and_back(monkeypatch):
    monkeypatch.chdir(STORAGE)
    one = post_requests.Wanted(str(SECTOR))
    common = dict(randomness=POSTS["window"]["randomness"], replica="sealed")
    for request in (post_requests.Request("window", (one, post_requests.Wanted("s-t01000-2")), **common),
                    post_requests.Request("winning", (one,), storage=(".",), miner="t01000", **common),
                    post_requests.Request("winning", vanilla=post("winning")["vanilla_proofs"][0], sector_size="2KiB",
                                          **common)):
        made, vanilla = requests.to_job(request, here=True)
        again, _ = requests.from_job(json.dumps(made), vanilla, ROOTS)
        assert request.prepare().identity() == again.prepare().identity()


def test_sectors_of_a_post_cannot_leave_the_storage(tmp_path):
    inside = copy(tmp_path / "in")
    wanted = [str(inside), str(SECTOR).replace("-1", "-2"), ["7", "aa" * 32]]
    job = json.dumps({"kind": "window", "sectors": wanted, "randomness": "00" * 32, "miner": "t01000"})
    found = problems(requests.from_job, job, b"", Roots([str(tmp_path / "in")]))
    assert found and all("s-t01000-2" in path for path in found)


@pytest.mark.parametrize("field, value", [
    ("sectors", []), ("sectors", "s-t01000-1"), ("sectors", ["a/s-t01000-1"]), ("sectors", [["s-t01000-1"]]),
    ("sectors", [["s-t01000-1", 1]]),
    ("skip_faulty", 1), ("read_seconds", 0), ("read_seconds", "x"), ("before", 1), ("randomness", 1), ("sector", "x")])
def test_a_field_of_a_post_that_is_none(field, value):
    job = {"kind": "window", "sectors": ["s-t01000-1"], "randomness": "00" * 32, field: value}
    found = problems(requests.from_job, json.dumps(job), b"", ROOTS)
    assert found[field].exit == Exit.USAGE


def test_submit():
    message = control.SubmitRequest(request_id="a", priority="high", deadline=1e9, job=json.dumps(
        {"kind": "snap", "sector": str(SECTOR)}))
    found = requests.from_submit(message, ROOTS)
    assert (found.id, found.priority, found.deadline, found.held) == ("a", Urgency.HIGH, 1e9, 0)
    message = control.SubmitRequest(request_id="\n", priority="x", deadline=float("nan"), job="{}")
    assert set(problems(requests.from_submit, message, ROOTS)) == {"request_id", "priority", "deadline", "kind"}
