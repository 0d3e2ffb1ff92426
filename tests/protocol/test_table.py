"""The table against what the reference's own files say."""
import json
from pathlib import Path

import pytest

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol import table

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.parametrize("path", sorted((FIXTURES / "circuits").glob("*.json")), ids=lambda p: p.stem)
def test_parameter_identifiers(path):
    expected = json.loads(path.read_text())
    if "parameter_identifier" not in expected:      # of a gadget, not of a circuit
        return
    kind, size = expected["circuit"].split()[:2]
    assert table.parameter_identifier(kind, table.parse_size(size.split("-")[0])) == expected["parameter_identifier"]


def test_file_names_of_the_test_parameters():
    for entry in json.loads((FIXTURES / "params" / "digests.json").read_text()):
        kind, size = entry["circuit"].split()
        assert table.parameter_stem(kind, table.parse_size(size)) + ".params" == entry["file"]


def test_every_registered_circuit_has_published_parameters():
    for size in table.SIZES.values():
        for kind in table.KINDS:
            assert (None in table.published_digests(kind, size)) == (size.registered is None)
    found = [table.published_digests(k, s)[0] for s in table.SIZES.values() for k in table.KINDS if s.registered is not None]
    assert len(set(found)) == 20


def test_shapes():
    for size in table.SIZES.values():
        leaves = 1
        for arity in size.arities:
            leaves *= arity
        assert leaves == size.nodes and size.nodes % (size.snap_partitions * size.snap_apex_leaves) == 0
    sizes = {s.name: s for s in table.SIZES.values()}
    assert sizes["32GiB"].snap_h_select() == 8 and sizes["2KiB"].snap_h_select() == 1
    assert (sizes["32GiB"].snap_partitions, sizes["32GiB"].snap_challenges, sizes["64GiB"].base_trees) == (16, 86, 16)
    assert (sizes["32GiB"].window_sectors, sizes["64GiB"].window_sectors, sizes["2KiB"].window_sectors) == (2349, 2300, 2)


@pytest.mark.parametrize("text", ["", "3KiB", "2", "KiB", "-2KiB", "2KiB2", "9" * 40, "1KiB"])
def test_other_sizes_are_refused(text):
    with pytest.raises(CuzkError) as raised:
        table.parse_size(text)
    assert raised.value.exit == Exit.USAGE


@pytest.mark.parametrize("kind, texts, version, size", [
    ("window", ["10", "StackedDrgWindow2KiBV1_1", "StackedDrgWindow2KiBV1P1", "stackeddrgwindow2kibv1_2", "Window2KiBV1_1",
                "RegisteredPoStProof_StackedDrgWindow2KiBV1_1"], "V1_1", "2KiB"),
    ("window", ["8", "StackedDrgWindow32GiBV1"], "V1", "32GiB"),
    ("winning", ["4", "StackedDrgWinning64GiBV1"], "V1", "64GiB"),
    ("snap", ["3", "StackedDrg32GiBV1", "EmptySectorUpdate32GiBV1"], "V1", "32GiB"),
    ("porep", ["8", "StackedDrg32GiBV1_1"], "V1_1", "32GiB"),
    ("porep", ["19", "StackedDrg64GiBV1_2_Feat_NiPoRep", "StackedDrg64GiBV1_2_Feat_NonInteractivePoRep"],
     "V1_2_Feat_NonInteractivePoRep", "64GiB")])
def test_registered_proofs(kind, texts, version, size):
    for text in texts:
        found = table.parse_registered(text, kind)
        assert (found.kind, found.version, found.size.name) == (kind, version, size)
        assert table.parse_registered(str(found.number), kind) == found


@pytest.mark.parametrize("kind, text", [("winning", "5"), ("window", "4"), ("window", "15"),
                                        ("winning", "StackedDrgWindow2KiBV1"),
                                        ("window", "StackedDrgWinning2KiBV1"), ("porep", "StackedDrgWindow2KiBV1"),
                                        ("window", "StackedDrgWindow2KiBV2"), ("window", "StackedDrgWindow4KiBV1"),
                                        ("snap", ""), ("porep", "20"), ("window", "-1")])
def test_registered_proofs_that_are_none(kind, text):
    with pytest.raises(CuzkError) as raised:
        table.parse_registered(text, kind)
    assert raised.value.exit == Exit.USAGE
