"""The ChaCha keystream against published blocks."""
import numpy as np

from cuzk_cli.protocol import chacha


def block(key: bytes, tail: bytes, rounds: int) -> str:
    words = chacha.blocks(np.frombuffer(key, "<u4")[None], np.frombuffer(tail, "<u4")[None], rounds)
    return words[0].astype("<u4").tobytes().hex()


def test_rfc_8439():
    tail = (1).to_bytes(4, "little") + bytes.fromhex("000000090000004a00000000")
    assert block(bytes(range(32)), tail, 20) == (       # section 2.3.2
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e")


def test_eight_rounds():
    # draft-strombergson-chacha-test-vectors-01, TC1: key and nonce of zeros
    assert block(bytes(32), bytes(16), 8).startswith(
        "3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e")


def test_many_at_once():
    rng = np.random.default_rng(1)
    keys, tails = (rng.integers(0, 1 << 32, (5, n), np.uint32) for n in (8, 4))
    together = chacha.blocks(keys, tails, 8)
    assert together.shape == (5, 16)
    for i in range(5):
        assert (chacha.blocks(keys[i:i + 1], tails[i:i + 1], 8) == together[i]).all()
    one_key = chacha.blocks(keys[:1], tails, 8)
    assert (one_key[3] == chacha.blocks(keys[:1], tails[3:4], 8)[0]).all()
