"""The gadgets carry other circuits: one partition of the fallback PoSt, row for row, with public inputs in the middle.

Source: storage-proofs-post src/fallback/circuit.rs, storage-proofs-core src/gadgets/por.rs.
"""
import base64
import json
from pathlib import Path

import numpy as np

from cuzk_cli.circuits import columns, digest, gadgets, poseidon
from cuzk_cli.circuits.structure import Structure
from cuzk_cli.circuits.template import ONE, Builder, Template
from cuzk_cli.circuits.witness import assign
from cuzk_cli.protocol.poseidon import tag_merkle

FIXTURES = Path(__file__).parents[2] / "fixtures" / "circuits"
CHALLENGES, LEVELS, SECTORS = 10, 2, 2

_ELEMENT = np.dtype([("length", "<u8"), ("siblings", "<u8", (7, 4)), ("position", "<u8")])
_PROOF = np.dtype([("tag", "<u4"), ("root", "<u8", 4), ("leaf", "<u8", 4), ("length", "<u8"),
                   ("path", _ELEMENT, LEVELS)])
VANILLA = np.dtype([("sector", "<u8"), ("comm_r", "<u8", 4), ("sectors", "<u8"), ("proofs_length", "<u8"),
                    ("proofs", _PROOF, CHALLENGES), ("comm_c", "<u8", 4), ("comm_r_last", "<u8", 4)])


def sector(table: dict) -> Template:
    """One sector and its challenges as one template without ports."""
    builder = Builder("sector", 0, 0, table, inputs=1 + CHALLENGES)
    comm_r_last, comm_c, comm_r = (builder.external() for _ in range(3))
    builder.inputize(comm_r)
    found = poseidon.permute(builder, [comm_c, comm_r_last], tag_merkle(2))
    builder.enforce({comm_r: 1}, {ONE: 1}, {found: 1})
    for _ in range(CHALLENGES):
        node, index = builder.external(), []
        for _ in range(LEVELS):
            bits = builder.external_bits(3)
            siblings = [builder.external() for _ in range(7)]
            node = poseidon.permute(builder, gadgets.insert(builder, node, siblings, bits), tag_merkle(8))
            index += bits
        builder.pack_into_input(index)
        builder.enforce({node: 1}, {ONE: 1}, {comm_r_last: 1})
    return builder.finish()


def externals(data: bytes) -> np.ndarray:
    """A sector's vanilla proof in the order of allocation."""
    v = np.frombuffer(data, VANILLA)[0]
    out = [v["comm_r_last"], v["comm_c"], v["comm_r"]]
    for proof in v["proofs"]:
        out.append(proof["leaf"])
        for element in proof["path"]:
            out += [np.array([element["position"], 0, 0, 0], np.uint64), *element["siblings"]]
    return np.stack(out)


def test_a_window_partition_is_the_references():
    expected = json.loads((FIXTURES / "window-2KiB.json").read_text())["partitions"][0]
    vanilla = json.loads((FIXTURES / "window-2KiB-vanilla.json").read_text())["sectors"]
    coefficients: dict = {}
    template = sector(coefficients)
    s = Structure("window 2KiB", 1 + SECTORS * (1 + CHALLENGES), coefficients)
    for _ in range(SECTORS):
        s.place(template)
    s.freeze()
    assert (s.n_rows, s.n_aux, s.n_inputs) == (expected["constraints"], expected["aux"], expected["inputs_with_one"])
    assert s.terms() == expected["nnz"] and digest.rows_sha256(s) == expected["rows_sha256"]
    a = assign(s, np.concatenate([externals(base64.b64decode(v["vanilla"])) for v in vanilla]))
    assert [w.tobytes().hex() for w in a.inputs[1:]] == expected["public_inputs"]
    assert digest.witness_sha256(a) == expected["witness_sha256"]
    assert columns.unsatisfied(a) == expected["unsatisfied"]
