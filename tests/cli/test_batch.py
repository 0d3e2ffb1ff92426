"""`cuzk batch`: every line has its answer, whatever it is."""
import json

import pytest

from .fixed import FACTS, OTHER, PROOF, SECTOR, STORAGE, VANILLA
from .test_prove_cli import cuzk, device  # noqa: F401  (fixtures)


@pytest.fixture
def batch(inside, device, tmp_path):  # noqa: F811
    def run(*jobs, options=(), **more):
        lines = [job if isinstance(job, str) else json.dumps(job) for job in jobs]
        (tmp_path / "jobs.jsonl").write_text("\n".join(lines) + "\n")
        found = inside("batch", tmp_path / "jobs.jsonl", "--params", device.params.parent, "--progress", "none", *options,
                       **more)
        results = {r["line"]: r for r in map(json.loads, found.out.splitlines())}
        assert len(results) == len(found.out.splitlines())      # none twice
        return found, results
    return run


def test_results_of_all_lines(batch):
    found, results = batch({"id": "a", "kind": "snap", "sector": str(SECTOR)}, "", "nonsense",
                           {"id": 4, "kind": "snap", "sector": str(SECTOR.parent / "s-t01000-9")},
                           {"kind": "snap", "vanilla": str(VANILLA), "sector_size": "2KiB",
                            **{name: FACTS[name] for name in ("comm_r_old", "comm_r_new", "comm_d_new")}})
    assert sorted(results) == [1, 3, 4, 5] and found.code == 2          # that of line 3, the first that failed
    assert results[1]["ok"] and results[1]["id"] == "a" and results[1]["proof"] == PROOF.hex()
    assert (results[3]["exit"], results[3]["id"]) == (2, None)
    assert (results[4]["exit"], results[4]["id"]) == (10, 4)
    assert results[5]["ok"] and results[5]["id"] is None and results[5]["proof"] == PROOF.hex()
    assert all(line.startswith("cuzk: line ") for line in found.lines)


def test_a_proof_that_does_not_verify_fails_its_line_only(batch):
    found, results = batch({"kind": "snap", "sector": str(OTHER)}, {"kind": "snap", "sector": str(SECTOR)})
    assert found.code == 14 and results[1]["exit"] == 14 and results[2]["ok"]


@pytest.mark.parametrize("job, named", [
    ("[]", "object"), ("{}", "kind"), ('{"kind": "x"}', "kind"), ("[" * 100000, "JSON"),
    ({"kind": "snap"}, "sector"), ({"kind": "snap", "sector": 1}, "sector"), ({"kind": "snap", "sector": "x", "y": 1}, "y"),
    ({"kind": "snap", "sector": str(SECTOR), "priority": "now"}, "priority"),
    ({"kind": "snap", "sector": str(SECTOR), "deadline": "soon"}, "deadline"),
    ({"kind": "snap", "sector": str(SECTOR), "id": []}, "id"),
    ({"kind": "snap", "sector": str(SECTOR), "partitions": [-1]}, "partitions")])
def test_bad_lines(batch, job, named):
    found, results = batch(job)
    assert found.code == 2 and results[1]["exit"] == 2 and any(named in line for line in found.lines)


def test_a_deadline_that_is_over(batch):
    found, results = batch({"kind": "snap", "sector": str(SECTOR), "deadline": "2020-01-01T00:00:00Z"})
    assert found.code == 17 == results[1]["exit"]


def test_jobs_stay_in_the_storage_folders(batch, tmp_path):
    (tmp_path / "storage").mkdir()
    found, results = batch({"kind": "snap", "sector": str(SECTOR)}, options=("--storage", tmp_path / "storage"))
    assert found.code == 10 and "storage folders" in found.lines[0]
    for folder in ("sealed", "cache", "update", "update-cache"):
        (tmp_path / "storage" / folder).symlink_to(STORAGE / folder)
    found, results = batch({"kind": "snap", "sector": SECTOR.name}, options=("--storage", tmp_path / "storage"))
    assert found.code == 10 and "storage folders" in found.lines[0]         # where the links lead
    found, results = batch({"kind": "snap", "sector": SECTOR.name}, options=("--storage", STORAGE))
    assert found.code == 0 and results[1]["ok"]


def test_a_source_that_cannot_be_read(inside, tmp_path):
    found = inside("batch", tmp_path / "none.jsonl")
    assert found.code == 10 and "none.jsonl" in found.lines[0]
