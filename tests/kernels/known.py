"""Points with known logarithms, made by an independent library, and their uncompressed encodings."""
import numpy as np
import py_arkworks_bls12381 as ark

from cuzk_cli.kernels import curve

R = curve.R_ORDER
GROUPS = {"g1": (curve.g1(), ark.G1Point), "g2": (curve.g2(), ark.G2Point)}


def scalar(k):
    return ark.Scalar.from_le_bytes((k % R).to_bytes(32, "little"))


def encode(group, point) -> np.ndarray:
    """An arkworks point -> the encoding of parameter files (for G2 the library writes c0 first)."""
    if point == type(point).identity():
        return np.frombuffer(b"\x40" + bytes(group.point_bytes - 1), np.uint8)
    data = np.frombuffer(bytes(point.to_xy_bytes_be()), np.uint8)
    return data.reshape(4, 48)[[1, 0, 3, 2]].reshape(-1) if group.extension else data


def encodings(name: str, logarithms) -> np.ndarray:
    group, kind = GROUPS[name]
    return np.stack([encode(group, kind() * scalar(k)) for k in logarithms])


def words(values) -> np.ndarray:
    return np.frombuffer(b"".join((v % R).to_bytes(32, "little") for v in values), "<u8").reshape(-1, 4)


def host_point(group, rows, i):
    """Row i of a table as a host point."""
    n = group.field.count
    return (group.coordinate(rows[i, :n]), group.coordinate(rows[i, n:])) if rows[i].any() else None
