"""Miners and prover ids."""
import pytest
from hypothesis import given, strategies as st

from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.actor import miner_of, parse_miner, prover_id


@pytest.mark.parametrize("text", ["t01000", "f01000", "1000", " t01000\n"])
def test_forms(text):
    assert parse_miner(text) == 1000
    assert prover_id(1000).hex() == "e807" + "00" * 30      # of the reference's vectors


@pytest.mark.parametrize("text", ["", "t1000", "t0", "t001", "01", "-1", "x", "t01000x", str(1 << 63), "1" * 100, "f1a",
                                  "1٣"])
def test_what_is_none(text):
    with pytest.raises(CuzkError) as raised:
        parse_miner(text)
    assert raised.value.exit == Exit.USAGE and "--miner" in raised.value.problems[0].line()


@given(st.integers(0, (1 << 63) - 1))
def test_there_and_back(miner):
    assert miner_of(prover_id(miner)) == parse_miner(f"f0{miner}") == miner


@pytest.mark.parametrize("prover", [b"\xff" * 32, b"\x80" + bytes(31), b"\x01\x01" + bytes(30), bytes(31) + b"\x01"])
def test_prover_ids_that_are_no_miners(prover):
    assert miner_of(prover) is None
