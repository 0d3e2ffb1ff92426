"""Blinding scalars."""
from cuzk_cli.prove.randomness import blinding, insecure_blinding
from cuzk_cli.protocol.fr import R_ORDER


def test_fresh_every_time():
    drawn = {value for _ in range(100) for value in blinding()}
    assert len(drawn) == 200 and all(0 <= value < R_ORDER for value in drawn)
    assert max(drawn) > R_ORDER // 2 > min(drawn)


def test_fixed_by_seed_and_partition():
    scalars = [insecure_blinding(seed, k) for seed in ("a", "b") for k in (0, 1, 15)]
    assert len({v for pair in scalars for v in pair}) == 12
    assert insecure_blinding("a", 0) == scalars[0]
    expected = "6280325556ddaee5b4dc6b4d283f665fac2ed05bfb2ac85b7af8752d9b227102"     # proof-snap.json
    assert scalars[0][0].to_bytes(32, "little").hex() == expected
