"""ChaCha keystream (D. J. Bernstein, ChaCha, a variant of Salsa20, 2008; RFC 8439): many blocks at once."""
from __future__ import annotations

import numpy as np

_CONSTANT = np.frombuffer(b"expand 32-byte k", "<u4")
_COLUMNS_AND_DIAGONALS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def blocks(keys: np.ndarray, tails: np.ndarray, rounds: int) -> np.ndarray:
    """keys uint32[n, 8]; tails uint32[n, 4], counter and nonce, one for all or one each; rounds: 8 or 20.

    uint32[n, 16]: the 64 bytes of each block.
    """
    n = max(len(keys), len(tails))
    start = np.empty((16, n), np.uint32)
    start[:4], start[4:12], start[12:] = _CONSTANT[:, None], keys.T, tails.T
    state = start.copy()
    for _ in range(rounds // 2):
        for a, b, c, d in _COLUMNS_AND_DIAGONALS:
            for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[x] += state[y]
                mixed = state[z] ^ state[x]
                state[z] = mixed << np.uint32(by) | mixed >> np.uint32(32 - by)
    return (state + start).T
