"""Trees, paths and records serve the vanilla proofs of WindowPoSt and WinningPoSt too, byte for byte."""
import base64
import json
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.protocol.poseidon import poseidon_batch
from cuzk_cli.protocol.table import SIZES
from cuzk_cli.sectors import encoding
from cuzk_cli.sectors.files import SectorFile
from cuzk_cli.sectors.trees import CachedTree, Tree
from cuzk_cli.sectors.vanilla import Paths, climb, positions

ROOT = Path(__file__).parents[2] / "fixtures"
NODE = ("<u8", (4,))


def record_type(size, challenges):
    """FallbackPoStSectorProof (filecoin-proofs src/types/mod.rs)."""
    proofs = (encoding.merkle_type(encoding.levels_of(size)), (challenges,))
    return np.dtype([("sector", "<u8"), ("comm_r", *NODE), ("sectors", "<u8"), ("count", "<u8"), ("proofs", *proofs),
                     ("comm_c", *NODE), ("comm_r_last", *NODE)])


@pytest.mark.parametrize("kind", ["window", "winning"])
@pytest.mark.parametrize("from_rows", [False, True])
def test_vanilla_proofs(kind, from_rows):
    facts = json.loads((ROOT / "posts" / f"{kind}-vanilla.json").read_text())
    size = SIZES[facts["sector_size"]]
    for entry in facts["sectors"]:
        name = f"s-t01000-{entry['sector']}"
        folder, index = ROOT / "sectors" / size.name, np.array(entry["challenges"])
        sealed = SectorFile(folder / "sealed" / name)
        if from_rows:
            rows = SectorFile(folder / "cache" / name / "sc-02-data-tree-r-last.dat")
            tree = CachedTree(sealed, [rows], size.nodes, size.arities, poseidon_batch)
        else:
            tree = Tree(sealed.read_nodes(0, size.nodes), size.arities, poseidon_batch)
        paths = Paths(np.broadcast_to(tree.root, (len(index), 4)), tree.leaves(index), tree.siblings(index),
                      positions(index, size.arities))
        assert (climb(paths, size.arities, poseidon_batch) == tree.root).all()

        record = np.zeros((), record_type(size, len(index)))
        p_aux = np.frombuffer((folder / "cache" / name / "p_aux").read_bytes(), "<u8").reshape(2, 4)
        record["sector"], record["sectors"], record["count"] = entry["sector"], 1, len(index)
        record["comm_r"] = np.frombuffer(bytes.fromhex(entry["comm_r"]), "<u8")
        record["comm_c"], record["comm_r_last"] = p_aux
        encoding.write_paths(record["proofs"], encoding.levels_of(size), paths)
        expected = base64.b64decode(entry["vanilla"])
        assert record.tobytes() == expected

        back = encoding.read_paths(np.frombuffer(expected, record.dtype)[0]["proofs"], encoding.levels_of(size))
        assert all((a == b).all() for a, b in zip(back, paths))
