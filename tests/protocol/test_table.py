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
