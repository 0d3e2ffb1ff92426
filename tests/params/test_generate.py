"""Generated parameters: every point against plain integers, proofs under them, folders, disks and interruptions."""
from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from py_arkworks_bls12381 import G1Point, G2Point

from cuzk_cli.circuits import snap
from cuzk_cli.circuits.columns import evaluate_columns
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.params import digests, generate as module, marker
from cuzk_cli.params.format import Counts, ParameterFile, VerifyingKey, read_verifying_key
from cuzk_cli.params.generate import generate
from cuzk_cli.params.points import encode_g1, encode_g2, scalar
from cuzk_cli.params.trapdoor import Trapdoor, expected_proof, lagrange_at
from cuzk_cli.protocol.fr import R_ORDER, root_of_unity, to_words
from cuzk_cli.prove.verifier import prepare, verify_proof

from .small import SLOW_FIXED_BASE, SmallCircuit, evaluate

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENTRIES = json.loads((FIXTURES / "params" / "digests.json").read_text())
STEM = "v28-small"


def snap_2kib():
    return snap.build(snap.Shape("2KiB", 6, 1, 10, 8, (1,) * 6, (8, 8)))


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FIL_PROOFS_PARAMETER_CACHE", raising=False)


@pytest.fixture(scope="module")
def circuit():
    return SmallCircuit(60, 3)


def make(circuit, folder, seed="t", multiply=SLOW_FIXED_BASE, **options):
    return generate(circuit, STEM, folder, seed, multiply, evaluate=evaluate, **options)


def integer_scalars(circuit, t):
    """The scalars of every vector, from the definitions."""
    m, root = 1 << circuit.log_m, root_of_unity(circuit.log_m)
    z = (pow(t.tau, m, R_ORDER) - 1) % R_ORDER
    weights = [z * pow(m * (t.tau - pow(root, i, R_ORDER)), -1, R_ORDER) * pow(root, i, R_ORDER) for i in range(m)]
    u, v, w = [0] * len(circuit.values), [0] * len(circuit.values), [0] * len(circuit.values)
    rows = circuit.rows + [({i: 1}, {}, {}) for i in range(circuit.n_inputs)]
    for row, weight in zip(rows, weights):
        for column, terms in zip((u, v, w), row):
            for c, k in terms.items():
                column[c] = (column[c] + k * weight) % R_ORDER
    private = [t.beta * a + t.alpha * b + c for a, b, c in zip(u, v, w)]
    n, divide = circuit.n_inputs, lambda x, d: x * pow(d, -1, R_ORDER) % R_ORDER
    return {"ic": [divide(p, t.gamma) for p in private[:n]], "l": [divide(p, t.delta) for p in private[n:]],
            "h": [divide(pow(t.tau, i, R_ORDER) * z, t.delta) for i in range(m - 1)],
            "a": [x for x in u if x], "b": [x for x in v if x]}


def test_every_point(circuit, tmp_path):
    made = make(circuit, tmp_path / "out")
    t, (g1, g2) = Trapdoor.of_seed("t"), (G1Point(), G2Point())
    expected = integer_scalars(circuit, t)
    raw = [encode_g1(g1 * scalar(t.alpha)), encode_g1(g1 * scalar(t.beta)), encode_g2(g2 * scalar(t.beta)),
           encode_g2(g2 * scalar(t.gamma)), encode_g1(g1 * scalar(t.delta)), encode_g2(g2 * scalar(t.delta))]
    for name in ("ic", "h", "l", "a", "b"):
        raw += [len(expected[name]).to_bytes(4, "big"), *(encode_g1(g1 * scalar(k)) for k in expected[name])]
        if name == "ic":
            assert made.vk.read_bytes() == b"".join(raw)
    raw += [len(expected["b"]).to_bytes(4, "big"), *(encode_g2(g2 * scalar(k)) for k in expected["b"])]
    data = made.params.read_bytes()
    assert data == b"".join(raw)
    assert made.bytes == len(data)
    assert made.digest == hashlib.blake2b(data).hexdigest()[:32] == digests.remembered(made.params)
    with ParameterFile(made.params, Counts.of(circuit)) as file:
        assert file.counts == Counts.of(circuit)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        marker.LOCK, marker.MARKER, f"{STEM}.params", f"{STEM}.vk"]
    assert json.loads((tmp_path / "out" / marker.MARKER).read_text())["seed"] == "t"


@pytest.mark.parametrize("rows, inputs", ((1, 1), (60, 3), (1000, 5)))
def test_proofs_from_logarithms_verify(rows, inputs):
    """The verifier's equation ties alpha, beta, gamma, delta, ic and the three logarithms together."""
    circuit, t = SmallCircuit(rows, inputs, seed=rows), Trapdoor.of_seed("x")
    columns = circuit.evaluate(lagrange_at(t.tau, circuit.log_m, circuit.total_rows))
    head = module._key_bytes(t, module._scalars(circuit, columns, t).ic, SLOW_FIXED_BASE)
    key = prepare(VerifyingKey(head))
    proof = expected_proof(t, circuit.log_m, columns, circuit.assignment, 1234567, R_ORDER - 5)
    assert verify_proof(key, to_words(circuit.values[1:inputs]), proof)
    if inputs > 1:
        assert not verify_proof(key, to_words([v + 1 for v in circuit.values[1:inputs]]), proof)


def test_verifying_key_of_snap_is_the_references():
    structure, t = snap_2kib(), Trapdoor.of_seed("cuzk")
    entry = next(e for e in ENTRIES if e["circuit"] == "snap 2KiB")
    counts = Counts.of(structure)
    assert counts == Counts(*(entry[name] for name in Counts._fields)) and counts.params_bytes == entry["bytes"]
    columns = evaluate_columns(structure, lagrange_at(t.tau, structure.log_m, structure.total_rows))
    vectors = module._scalars(structure, columns, t)
    assert (len(vectors.a), len(vectors.b)) == (entry["a"], entry["b_g1"])
    head = module._key_bytes(t, vectors.ic, SLOW_FIXED_BASE)
    assert head == (FIXTURES / "params" / entry["file"].replace(".params", ".vk")).read_bytes()


def test_chunks_change_nothing(circuit, tmp_path):
    whole = make(circuit, tmp_path / "a").params.read_bytes()
    seen = []
    made = make(circuit, tmp_path / "b", multiply=SLOW_FIXED_BASE._replace(chunk=7),
                progress=lambda done, total: seen.append((done, total)))
    assert made.params.read_bytes() == whole
    assert seen == sorted(seen) and seen[-1] == (sum(Counts.of(circuit)[1:]),) * 2


def test_a_variable_in_no_row(tmp_path):
    circuit = SmallCircuit(20, 2)
    circuit.rows[-1] = ({0: 1}, {0: 1}, {0: 1})
    circuit.a_aux[-1] = circuit.b_aux[-1] = False
    with pytest.raises(CuzkError, match="1 in no row, the first is aux 19") as caught:
        make(circuit, tmp_path / "out")
    assert caught.value.exit == Exit.PARAMETERS
    assert not list((tmp_path / "out").glob("v28*"))


@pytest.fixture(scope="module")
def kernels():
    from cuzk_cli.kernels import runtime
    runtime.setup()
    return module.device_fixed_base()


def test_kernels_make_the_same_bytes(circuit, tmp_path, kernels):
    assert make(circuit, tmp_path / "a", multiply=kernels).params.read_bytes() == make(circuit, tmp_path / "b").params.read_bytes()


@pytest.mark.slow
def test_parameters_of_snap_are_the_references(tmp_path, kernels):
    entry = next(e for e in ENTRIES if e["circuit"] == "snap 2KiB")
    made = generate(snap_2kib(), entry["file"].removesuffix(".params"), tmp_path / "out", "cuzk", kernels)
    assert (made.params.name, made.bytes, made.digest) == (entry["file"], entry["bytes"], entry["blake2b_32"])
    with open(made.params, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == entry["sha256"]
    assert hashlib.sha256(made.vk.read_bytes()).hexdigest() == entry["vk_sha256"]


# ---------------------------------------------------------------- folders
def refusal(circuit, folder, seed="t"):
    before = sorted(os.listdir(folder)) if Path(folder).exists() else None
    with pytest.raises(CuzkError) as caught:
        make(circuit, folder, seed)
    assert caught.value.exit == Exit.PARAMETERS
    assert (sorted(os.listdir(folder)) if Path(folder).exists() else None) == before
    return str(caught.value)


def test_folders_that_are_refused(circuit, tmp_path, monkeypatch):
    real = tmp_path / "real"
    monkeypatch.setattr(marker, "DEFAULT_FOLDER", real)
    assert "network's parameters" in refusal(circuit, real)
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert "network's parameters" in refusal(circuit, tmp_path / "link")
    for name in ("named", "link2"):
        monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", str(tmp_path / "named"))
        (tmp_path / "named").mkdir(exist_ok=True)
        if name == "link2":
            (tmp_path / name).symlink_to(tmp_path / "named")
        assert "FIL_PROOFS_PARAMETER_CACHE" in refusal(circuit, tmp_path / name)
    other = tmp_path / "other"
    other.mkdir()
    (other / "v28-something.vk").write_bytes(b"x")
    assert "v28-something.vk" in refusal(circuit, other)


def test_marked_folders(circuit, tmp_path):
    out = tmp_path / "out"
    first = make(circuit, out)
    data, inode = first.params.read_bytes(), first.params.stat().st_ino
    assert "seed 't'" in refusal(circuit, out, "another")
    assert make(circuit, out, only_missing=True) is None and first.params.stat().st_ino == inode
    first.params.unlink()
    assert make(circuit, out, only_missing=True).params.read_bytes() == data
    first.vk.write_bytes(b"broken")
    (out / "v28-other.params").write_bytes(b"another kind's")
    assert make(circuit, out).vk.read_bytes() == data[:len(first.vk.read_bytes())]
    assert (out / "v28-other.params").read_bytes() == b"another kind's"
    for damaged in ("", "{}", "[]", '{"seed": 3}', "\udcff"):
        (out / marker.MARKER).write_bytes(damaged.encode(errors="surrogateescape"))
        assert "cannot be read" in refusal(circuit, out)


def test_a_failure_leaves_the_old_files(circuit, tmp_path):
    out = tmp_path / "out"
    made = make(circuit, out)
    before = made.params.read_bytes()

    def failing(done, total):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        make(circuit, out, progress=failing)
    assert made.params.read_bytes() == before
    assert not [p for p in out.iterdir() if p.name.endswith(".tmp")]


def test_full_disk(circuit, tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(CuzkError, match="actual 100 bytes") as caught:
        make(circuit, tmp_path / "out")
    assert caught.value.exit == Exit.RESOURCES
    monkeypatch.undo()

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            raise OSError(28, "No space left on device")

    original = module._write
    monkeypatch.setattr(module, "_write", lambda file, *rest: original(Full(file), *rest))
    with pytest.raises(CuzkError, match="No space left on device") as caught:
        make(circuit, tmp_path / "out2")
    assert caught.value.exit == Exit.OUTPUT
    assert not list((tmp_path / "out2").glob("*v28*"))


def test_unwritable_folder(circuit, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CuzkError) as caught:
        make(circuit, tmp_path / "file" / "below")
    assert caught.value.exit == Exit.OUTPUT
    with pytest.raises(CuzkError) as caught:
        make(circuit, tmp_path / "file")
    assert caught.value.exit == Exit.OUTPUT


def test_killed_halfway(circuit, tmp_path):
    """SIGKILL in the middle of writing leaves no file under a final name; the next run cleans up and ends well."""
    out = tmp_path / "out"
    program = textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from cuzk_cli.params import generate
        from tests.params.small import SLOW_FIXED_BASE, SmallCircuit, evaluate
        multiply = SLOW_FIXED_BASE._replace(chunk=16)
        def progress(done, total):
            if done > total // 2:
                os.kill(os.getpid(), signal.SIGKILL)
        generate.generate(SmallCircuit(60, 3), {STEM!r}, {str(out)!r}, "t", multiply, evaluate=evaluate,
                          progress=progress)
    """)
    ended = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    left = [p.name for p in out.iterdir()]
    assert any(name.endswith(".tmp") for name in left)
    assert not [name for name in left if name.startswith("v28")]
    made = make(circuit, out, only_missing=True)
    assert read_verifying_key(made.vk, 3).raw == read_verifying_key(made.params).raw
    assert not [p for p in out.iterdir() if p.name.endswith(".tmp")]


def test_two_at_once(circuit, tmp_path):
    """The second process waits for the first and finds its files."""
    import threading

    out, waited, inside, go = tmp_path / "out", [], threading.Event(), threading.Event()

    def progress(done, total):
        inside.set()
        assert go.wait(30)

    first = threading.Thread(target=lambda: make(circuit, out, progress=progress))
    first.start()
    assert inside.wait(30)
    second = threading.Thread(target=lambda: waited.append(
        make(circuit, out, only_missing=True, waiting=lambda: (waited.append("waits"), go.set()))))
    second.start()
    first.join(30)
    second.join(30)
    assert waited == ["waits", None]
