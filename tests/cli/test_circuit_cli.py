"""`cuzk circuit digest snap`: the reference's digests as JSON, and what it refuses."""
import json

import pytest

from .fixed import FACTS, FIXTURES, OTHER, SECTOR, VANILLA, commitments, copy

KEYS = {"partition", "constraints", "inputs_with_one", "aux", "nnz", "rows_sha256"}
OF_A_WITNESS = {"public_inputs", "witness_sha256", "unsatisfied"}
FACTS_ONLY = commitments()[:-2]


def digest(inside, *arguments, size="2KiB", stdin=b""):
    found = inside("circuit", "digest", "snap", "--sector-size", size, *arguments, stdin=stdin)
    assert found.code == 0 and not found.lines, found
    return json.loads(found.out)


def compare(answer, name, partitions):
    """Every key that we print is the reference's, which may have more."""
    of = json.loads((FIXTURES / "circuits" / f"snap-{name}.json").read_text())
    assert set(answer) == {"circuit", "parameter_identifier", "partitions"}
    assert (answer["circuit"], answer["parameter_identifier"]) == (of["circuit"], of["parameter_identifier"])
    assert [entry["partition"] for entry in answer["partitions"]] == partitions
    theirs = {entry["partition"]: entry for entry in of["partitions"]}
    for entry in answer["partitions"]:
        assert entry == {key: theirs[entry["partition"]][key] for key in entry}


@pytest.mark.parametrize("size", ["2KiB", "4KiB", "16KiB", "32KiB"])
def test_of_the_circuit_alone(inside, size):
    answer = digest(inside, size=size)
    compare(answer, size, [0])
    assert set(answer["partitions"][0]) == KEYS


@pytest.mark.parametrize("size", ["2k", "2048", "2kib"])
def test_sizes_as_people_write_them(inside, size):
    assert digest(inside, size=size)["circuit"] == "snap 2KiB"


@pytest.mark.parametrize("size, partitions", [("2KiB", [0]), ("16KiB", [0, 1])])
def test_of_a_sector_s_witnesses(inside, size, partitions):
    answer = digest(inside, "--sector", FIXTURES / "sectors" / size / "s-t01000-1", size=size)
    compare(answer, size, partitions)
    assert all(set(p) == KEYS | OF_A_WITNESS and p["unsatisfied"] == 0 for p in answer["partitions"])


def test_of_another_sector(inside):
    compare(digest(inside, "--sector", OTHER), "2KiB-sector-2", [0])


def test_of_vanilla_proofs(inside):
    compare(digest(inside, "--vanilla", VANILLA, *FACTS_ONLY), "2KiB", [0])
    compare(digest(inside, "--vanilla", "-", "--sector", SECTOR, stdin=VANILLA.read_bytes()), "2KiB", [0])


def test_partition_chooses(inside):
    sector = FIXTURES / "sectors" / "16KiB" / "s-t01000-1"
    vanilla = FIXTURES / "sectors" / "16KiB" / "update-cache" / "s-t01000-1" / "snap-vproof.json"
    compare(digest(inside, "--sector", sector, "--partition", "1", size="16KiB"), "16KiB", [1])
    both = digest(inside, "--sector", sector, "--vanilla", vanilla, "--partition", "1,0", size="16KiB")
    compare(both, "16KiB", [0, 1])


def test_unsatisfied_input_is_never_refused(inside):
    for where in (commitments(comm_r_old=FACTS["comm_r_new"])[:-2], ["--sector", OTHER]):
        assert digest(inside, "--vanilla", VANILLA, *where)["partitions"][0]["unsatisfied"] > 0


@pytest.mark.parametrize("file", ["sealed/s-t01000-1", "update/s-t01000-1", "cache/s-t01000-1/p_aux",
                                  "update-cache/s-t01000-1/p_aux", "update-cache/s-t01000-1/sc-02-data-tree-d.dat",
                                  "cache/s-t01000-1/sc-02-data-tree-r-last.dat"])
def test_files_that_do_not_belong_together_are_not_refused(inside, tmp_path, file):
    """One flipped bit, in the root of tree D and in the first byte elsewhere: seen by the circuit, or nothing changes."""
    sector = copy(tmp_path / "s")
    data = bytearray((tmp_path / "s" / file).read_bytes())
    data[-32 if "tree-d" in file else 0] ^= 1
    (tmp_path / "s" / file).write_bytes(data)
    found = digest(inside, "--sector", sector)["partitions"][0]
    whole = digest(inside, "--sector", SECTOR)["partitions"][0]
    unseen = file.endswith(("tree-r-last.dat", "update-cache/s-t01000-1/p_aux"))
    assert (found == whole) == unseen and found["rows_sha256"] == whole["rows_sha256"]
    if file == "update-cache/s-t01000-1/sc-02-data-tree-d.dat":
        assert found["unsatisfied"] > 0


def test_given_commitments_are_taken_as_they_are(inside):
    found = digest(inside, "--sector", SECTOR, *commitments(comm_d_new=FACTS["comm_r_new"])[:-2])["partitions"][0]
    assert found["public_inputs"][2] == FACTS["comm_r_new"] and found["unsatisfied"] > 0


@pytest.mark.parametrize("arguments, named", [
    ([], None), (["--sector-size", "3KiB"], "3KiB"), (["--sector-size", ""], None),
    (["--sector-size", "2KiB", "x"], None),
    (["--sector-size", "2KiB", "--vanilla", VANILLA], "--comm-r-old"), (["--sector-size", "2KiB", "--h", "99"], "--h"),
    (["--sector-size", "2KiB", "--h", "x"], None), (["--sector-size", "2KiB", "--sector", "nothing"], "nothing"),
    (["--sector-size", "2KiB", "--sector", SECTOR, "--partition", "1"], "--partition"),
    (["--sector-size", "2KiB", "--sector", SECTOR, "--partition", ""], "--partition"),
    (["--sector-size", "2KiB", "--sector", SECTOR, "--comm-r-old", "zz"], "--comm-r-old")])
def test_usage(inside, arguments, named):
    found = inside("circuit", "digest", "snap", *arguments)
    assert found.code == 2
    if named:           # what Typer itself refuses has no object
        assert found.json["exit"] == 2 and len(found.lines) == 1 and named in found.lines[0]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"no JSON", VANILLA.read_bytes()[:1000], b'["AAAA"]'])
def test_vanilla_proofs_that_cannot_be_read(inside, content):
    found = inside("circuit", "digest", "snap", "--sector-size", "2KiB", "--vanilla", "-", "--sector", SECTOR,
                   stdin=content)
    assert found.code == 10 == found.json["exit"] and len(found.lines) == 1


@pytest.mark.parametrize("path", ["none", "folder", "plain/below"])
def test_a_vanilla_file_that_cannot_be_read(inside, tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    found = inside("circuit", "digest", "snap", "--sector-size", "2KiB", "--vanilla", tmp_path / path,
                   "--sector", SECTOR)
    assert found.code == 10 and len(found.lines) == 1 and str(tmp_path / path) in found.lines[0]


def test_a_sector_that_cannot_be_read(inside, tmp_path):
    sector = copy(tmp_path / "s")
    (tmp_path / "s" / "update" / "s-t01000-1").write_bytes(b"")
    (tmp_path / "s" / "cache" / "s-t01000-1" / "p_aux").unlink()
    found = inside("circuit", "digest", "snap", "--sector-size", "2KiB", "--sector", sector)
    assert found.code == 10 and len(found.lines) == len(found.json["errors"]) == 2
    of_another_size = inside("circuit", "digest", "snap", "--sector-size", "4KiB", "--sector", SECTOR)
    assert of_another_size.code == 10 and of_another_size.lines


# the size of the file that bellperson makes
@pytest.mark.parametrize("size, params, vk", [("2KiB", 655789464, 1348)])
def test_inspect(inside, size, params, vk):
    found = json.loads(inside("circuit", "inspect", "snap", "--sector-size", size, "--test-params").out)
    assert (found["parameters"]["params_bytes"], found["parameters"]["vk_bytes"]) == (params, vk)
    assert (found["constraints"], found["inputs_with_one"], found["aux"]) == (1705039, 5, 1703569)
    assert found["log2_domain"] == 21 and found["terms"] == {"a": 4030887, "b": 1706537, "c": 3616648}
    assert found["memory"]["fits"] and found["memory"]["need_bytes"] == sum(
        found["memory"][f"{name}_bytes"] for name in ("base", "synthesis", "assignments", "device"))
    small = json.loads(inside("circuit", "inspect", "snap", "--sector-size", size, "--memory-budget", "1GiB").out)
    assert not small["memory"]["fits"] and small["memory"]["limit"] == "--memory-budget"


def test_inspect_builds_nothing_large(inside):
    found = json.loads(inside("circuit", "inspect", "snap", "--sector-size", "32GiB").out)
    assert found["log2_domain"] == 27 and found["parameters"]["published_digests"]["params"].startswith("1b3cfd76")
    assert found["constraints"] == 81049499 and not found["memory"]["fits"]
