"""PoRep's circuit against the reference's digests, and against counts where there are none."""
import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns, digest, stacked
from cuzk_cli.protocol.table import SIZES, V1, V1_1, Registered
from cuzk_cli.prove import circuits, porep

from ..sectors import sealing

FIXTURES = Path(__file__).parents[2] / "fixtures"
C1 = FIXTURES / "sectors" / "2KiB" / "s-t01000-1.c1.json"


def expected(name):
    return json.loads((FIXTURES / "circuits" / f"{name}.json").read_text())["partitions"][0]


@lru_cache(maxsize=None)
def witness():
    return porep.Request(str(C1)).prepare().witness(0)


@pytest.mark.parametrize("size, name", [
    (2 << 10, "porep-2KiB"), pytest.param(32 << 30, "porep-32GiB", marks=pytest.mark.slow)])
def test_rows_are_the_references(size, name):
    structure, want = circuits.structure("porep", size), expected(name)
    assert (structure.n_rows, structure.n_aux, structure.n_inputs) == (
        want["constraints"], want["aux"], want["inputs_with_one"])
    assert structure.terms() == want["nnz"] and digest.rows_sha256(structure) == want["rows_sha256"]


@pytest.mark.parametrize("size, rows, inputs, aux", [      # formats.md A.4
    (2 << 10, 2_687_921, 40, 2_685_673), (8 << 20, 3_844_929, 40, 3_842_449), (512 << 20, 4_423_433, 40, 4_420_837),
    (32 << 30, 130_278_541, 328, 130_169_893), (64 << 30, 131_185_849, 328, 131_076_643)])
def test_counts(size, rows, inputs, aux):
    structure = stacked.build(circuits.CIRCUITS["porep"].shape(SIZES[size]))
    assert (structure.n_rows, structure.n_inputs, structure.n_aux) == (rows, inputs, aux)


@pytest.mark.parametrize("arities, nodes, rows", [         # storage-proofs-porep tests/stacked_circuit.rs
    ((8,), 8, 1_199_620), ((8, 4), 32, 1_296_576), ((8, 4, 2), 64, 1_346_982)])
def test_counts_of_the_references_tests(arities, nodes, rows):
    shape = stacked.Shape("test", nodes.bit_length() - 1, 2, 1, arities)
    structure = stacked.build(shape)
    assert (structure.n_rows, structure.n_inputs) == (rows, 22)


def test_the_witness_is_the_references():
    want = expected("porep-2KiB")
    a = circuits.synthesise("porep", 2048, witness())
    assert [w.tobytes().hex() for w in a.inputs[1:]] == want["public_inputs"]
    assert digest.witness_sha256(a) == want["witness_sha256"] and columns.unsatisfied(a) == want["unsatisfied"] == 0


@pytest.mark.parametrize("name", stacked.PartitionWitness._fields)
def test_one_change_is_counted(name):
    array = getattr(witness(), name).copy()
    array.reshape(-1)[0] ^= array.dtype.type(1)
    a = circuits.synthesise("porep", 2048, witness()._replace(**{name: array}))
    if name == "data_position":         # the data is zero: another leaf is as good, but not public
        assert (a.inputs != circuits.synthesise("porep", 2048, witness()).inputs).any()
    else:
        assert columns.unsatisfied(a) >= 1


@pytest.mark.parametrize("size, version", [
    (8 << 20, V1_1), (512 << 20, V1), pytest.param(32 << 30, V1_1, marks=pytest.mark.slow),
    pytest.param(64 << 30, V1, marks=pytest.mark.slow)])
def test_a_partition_of_real_size(size, version):
    """At 32 GiB 11 layers and 18 challenges: every one of 130 million rows is satisfied."""
    sealed = sealing.seal(Registered("porep", version, SIZES[size]))
    prepared = porep.Request(sealing.as_binary(sealing.as_object(sealed)), miner="1000", sector_number=7).prepare()
    last = prepared.partitions[-1]
    a = circuits.synthesise("porep", size, prepared.witness(last))
    assert columns.unsatisfied(a) == 0 and (a.inputs[1:] == prepared.public_inputs(last)).all()
    assert np.count_nonzero(a.aux_small == 2) == len(a.aux_full)
