"""Phase 1 outputs in each form: the reference's and those made here, and what is no phase 1 output."""
import base64
import json
import random
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cuzk_cli.circuits import columns
from cuzk_cli.errors import CuzkError, Exit
from cuzk_cli.protocol.fr import R_ORDER
from cuzk_cli.protocol.table import NON_INTERACTIVE, REGISTERED, SIZES, V1_1, Registered
from cuzk_cli.prove import circuits, porep
from cuzk_cli.sectors import c1

from . import sealing

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "sectors" / "2KiB"
WRAPPER, BINARY = ((FIXTURES / f"s-t01000-1.c1.{end}").read_bytes() for end in ("json", "bin"))
JSON = base64.b64decode(json.loads(WRAPPER)["Phase1Out"])
FACTS = json.loads((FIXTURES / "s-t01000-1.json").read_text())
SIZES_OF = [2 << 10, 8 << 20, 32 << 30, 64 << 30]       # all shapes of tree R


def same(a, b):
    """Facts and proofs."""
    flat = lambda found: [x for part in found.proofs for x in (part if isinstance(part, tuple) else (part,))]
    return a.facts == b.facts and a.size == b.size and a.partitions == b.partitions and all(
        x.dtype == y.dtype and x.shape == y.shape and (x == y).all() for x, y in zip(flat(a), flat(b), strict=True))


def refused(data):
    with pytest.raises(CuzkError) as raised:
        c1.parse(data, "c1.json")
    assert raised.value.exit == Exit.INPUT
    lines = [problem.line() for problem in raised.value.problems]
    assert all(line.startswith("c1.json: ") and "\n" not in line and len(line) < 1000 for line in lines), lines
    return "\n".join(lines)


@lru_cache(maxsize=None)
def made(size=2048, version=V1_1):
    """(what was sealed, its JSON value); of a real size one partition's challenges, again and again."""
    one = sealing.seal(Registered("porep", version, SIZES[size]))
    return one, sealing.as_object(one)


# ---- forms
def test_the_references_output_in_every_form():
    found = c1.parse(WRAPPER)
    assert (found.size.name, found.registered.version, found.partitions, found.sector) == ("2KiB", V1_1, 1, 1)
    facts = found.facts
    assert [facts.comm_r.hex(), facts.comm_d.hex(), facts.seed.hex(), facts.ticket.hex()] == [
        FACTS[name] for name in ("comm_r_old", "comm_d_old", "interactive_seed", "ticket")]
    assert sealing.as_json(json.loads(JSON)) == JSON and sealing.as_binary(json.loads(JSON)) == BINARY
    alone, binary = c1.parse(JSON), c1.parse(BINARY)
    assert same(found, alone) and same(found, binary)
    assert (alone.registered, alone.sector, binary.registered, binary.sector) == (found.registered, None, None, None)


def shuffled(value, rng):
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(v, rng) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(3))
def test_order_and_space_do_not_matter(seed):
    rng = random.Random(seed)
    value = shuffled(json.loads(JSON), rng)
    wrapper = {"SectorSize": 2048, "Phase1Out": base64.b64encode(json.dumps(value).encode()).decode(), "SectorNum": 1}
    for data in (json.dumps(value), json.dumps(value, indent=rng.randrange(9)),
                 " \r\n\t" + json.dumps(value, indent="\t") + "\n",
                 json.dumps(shuffled(wrapper, rng)), json.dumps(wrapper, indent=1).replace("/", "\\/"),
                 json.dumps({name.upper(): v for name, v in wrapper.items()}),
                 json.dumps({**value, "extra": [-1, 2.5, {"a": None}, list(range(40)), "\\\"[1]"]})):
        assert same(c1.parse(data.encode()), c1.parse(BINARY))


@pytest.mark.parametrize("size", SIZES_OF)
def test_every_shape(size):
    one, value = made(size)
    binary, text = c1.parse(sealing.as_binary(value)), c1.parse(sealing.as_json(value))
    assert same(binary, text) and text.registered == one.registered and text.partitions == one.partitions
    expected = c1.C1(one.registered.size, None, one.partitions, one.proofs, one.facts, None)
    assert all(np.array_equal(x, y) for a, b in zip(binary.proofs, expected.proofs)
               for x, y in (zip(a, b) if isinstance(a, tuple) else ((a, b),)))


@pytest.mark.parametrize("version", list(REGISTERED["porep"]))
def test_every_version(version):
    one, value = made(version=version)
    found = c1.parse(sealing.as_json(value))
    assert found.registered == one.registered and found.partitions == (13 if version == NON_INTERACTIVE else 1)
    assert list(value["vanilla_proofs"]) == ["StackedDrg2KiBV1"]
    assert same(found, c1.parse(sealing.as_binary(value)))


# ---- damage
@pytest.mark.parametrize("form", ["json", "wrapper", "binary"])
def test_cut_anywhere(form):
    data = {"json": JSON, "wrapper": WRAPPER, "binary": BINARY}[form]
    rng = random.Random(1)
    for at in [*range(200), *rng.sample(range(len(data)), 200), *range(len(data) - 100, len(data))]:
        said = refused(data[:at])
        assert at == 0 or "empty" not in said
        if form != "binary" and at:
            assert f"byte {at}" in said and "is the file complete?" in said or at < 20, (at, said)


def test_cut_inside_the_wrapper():
    for at in (0, 1, 100, len(JSON) // 2, len(JSON) - 1):
        said = refused(sealing.as_wrapper(JSON[:at], 1, 2048))
        assert "Phase1Out" in said and (at == 0 or f"byte {at}" in said)


@pytest.mark.parametrize("data, said", [
    (b"", "empty"), (b" \n", "empty"), (b"null", "begins with"), (b"[]", "begins with"), (b"\x7fELF", "begins with"),
    (bytes(2000), "neither"), (b"\x01" + bytes(1000), "neither"), (b"{}", "registered_proof"),
    (b'{"a": 1} x', "byte 9"),
    (b'{"Phase1Out": ""}', "Phase1Out"), (b'{"Phase1Out": "x"}', "base64"), (b'{"Phase1Out": "AAAA"}', "Phase1Out"),
    (b'{"Phase1Out": "e30="}', "registered_proof"), (b'{"Phase1Out": 5}', "registered_proof"),
    (b'{"a": 1, "a": 2}', "twice"), (b'{"a": NaN}', "NaN"), (b'{"a": ' + b"[" * 60_000, "recursion"),
    (b'{"registered_proof": "StackedDrg2KiBV1", "vanilla_proofs": {}}', "0 keys"),
    (b'{"a": [' + b"[]," * 100_000 + b"0]}", "lists of 32 bytes")])
def test_no_phase_1_output(data, said):
    assert said in refused(data)


def changed(path, value):
    """The reference's output with another value at a path of keys; REMOVE takes it away."""
    whole = json.loads(JSON)
    at = whole
    for key in path[:-1]:
        at = at[key]
    if value is REMOVE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(whole).encode()


REMOVE = object()
PROOF = ("vanilla_proofs", "StackedDrg2KiBV1", 0, 1)
SINGLE = (*PROOF, "comm_d_proofs", "data", "Single")
COLUMN = (*PROOF, "replica_column_proofs", "drg_parents", 2)
BIG = list(R_ORDER.to_bytes(32, "little"))


@pytest.mark.parametrize("path, value, said", [
    (("registered_proof",), REMOVE, "registered_proof"),
    (("registered_proof",), "StackedDrg2KiBV9", "StackedDrg2KiBV9"),
    (("registered_proof",), 5, "a string"), (("registered_proof",), "StackedDrg8MiBV1_1", "8MiB"),
    (("vanilla_proofs",), [], "an object"), (("vanilla_proofs",), {"StackedDrg2KiBV1": []}, "its partitions"),
    (("vanilla_proofs",), {"StackedDrg2KiBV1": [], "b": 1}, "2 keys"), (("vanilla_proofs",), {"x": []}, "'x'"),
    (("vanilla_proofs", "StackedDrg2KiBV1", 0), [], "partition 0: its challenges"),
    (("vanilla_proofs", "StackedDrg2KiBV1", 0), {}, "partition 0: its challenges"),
    (PROOF, 7, "partition 0, challenge 1"),
    (("comm_r",), REMOVE, "comm_r"), (("comm_r",), [1] * 31, "list of 31"), (("ticket",), "00", "'00'"),
    (("seed",), [256] * 32, "list of 32"), (("seed",), [1.5] * 32, "list of 32"), (("seed",), [-1] * 32, "list of 32"),
    (("comm_r",), BIG, "comm_r is no field element"), (("replica_id",), [255] * 32, "replica_id is no field element"),
    ((*SINGLE, "root"), REMOVE, "root"), ((*SINGLE, "leaf"), -1, "-1"), ((*SINGLE, "path", "path"), [], "the levels"),
    ((*SINGLE, "path", "path", 3, "index"), 2, "index: expected a number below 2"),
    ((*SINGLE, "path", "path", 3, "index"), -1, "index"), ((*SINGLE, "path", "path", 3, "index"), True, "index"),
    ((*SINGLE, "path", "path", 3, "index"), 0.0, "index"), ((*SINGLE, "path", "path", 3, "hashes"), [], "the hashes"),
    ((*SINGLE, "path", "path", 3, "hashes", 0), BIG, "challenge 1: sibling in tree D is no field element"),
    ((*PROOF, "comm_r_last_proof", "data"), {"Sub": {}}, "Single"), (COLUMN, None, "column"),
    ((*COLUMN, "column", "index"), 1 << 32, "index"), ((*COLUMN, "column", "rows"), [[0] * 32], "rows of a column"),
    ((*COLUMN, "column", "rows", 1), BIG, "challenge 1: row of a column is no field element"),
    ((*PROOF, "replica_column_proofs", "exp_parents"), [], "exp_parents"),
    ((*PROOF, "replica_column_proofs", "c_x"), REMOVE, "c_x"), ((*PROOF, "labeling_proofs"), [], "labeling_proofs"),
    ((*PROOF, "labeling_proofs", 0, "parents"), [[0] * 32] * 36, "parents of a label"),
    ((*PROOF, "labeling_proofs", 0, "parents", 36), [0] * 33, "parents of a label"),
    ((*PROOF, "labeling_proofs", 1, "layer_index"), "2", "layer_index"),
    ((*PROOF, "encoding_proof"), REMOVE, "encoding_proof"), ((*PROOF, "encoding_proof", "node"), 1 << 64, "node"),
    ((*PROOF, "encoding_proof", "parents", 0), BIG, "parent of a label")])
def test_every_part_is_looked_at(path, value, said):
    assert said in refused(changed(path, value))


@pytest.mark.parametrize("beside, said", [
    ({"SectorNum": -1}, "SectorNum"), ({"SectorNum": "1"}, "SectorNum"), ({"SectorNum": 1 << 64}, "SectorNum"),
    ({"SectorSize": 4096}, "SectorSize"), ({"SectorSize": "2KiB"}, "SectorSize"), ({"Phase1Out": "!" * 8}, "base64")])
def test_the_wrapper_is_looked_at(beside, said):
    assert said in refused(json.dumps({**json.loads(WRAPPER), **beside}).encode())


@pytest.mark.parametrize("at, said", [
    (0, "its partitions"), (8, "partition 0: its challenges"), (16, "challenge 0: byte 0"),
    (16 + 4 + 64 + 8, "challenge 0"),
    (len(BINARY) - 5 * 32 - 12 - 37 * 32 - 8, "challenge 1")])
def test_lengths_in_the_binary_form(at, said):
    data = bytearray(BINARY)
    data[at] ^= 4
    assert said in refused(bytes(data))


def test_numbers_that_touch_a_node_are_no_json():
    text = json.dumps(json.loads(JSON), separators=(",", ":"))
    for before, after in (("", "9"), ("", "e5"), ("", ".5"), ("1e", ""), ("-", ""), ("5", "")):
        refused(text.replace("[", "<", 1).replace('"comm_r":[', f'"comm_r":{before}[', 1).replace("<", "[", 1).replace(
            '],"comm_d":', f']{after},"comm_d":', 1).encode())
    for number in ("-05", "-", "-.5", "01", "+1", "- 1"):
        refused(text.replace('"comm_r":', f'"extra":{number},"comm_r":', 1).encode())
    refused(text.replace('"comm_r":[1', '"comm_r":[01', 1).encode())
    assert c1.parse(text.replace('"comm_r":', '"extra":[-5,-5.5e-1,-0],"comm_r":', 1).encode())


# ---- mutations
TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"-", b"null", b"0", b"256", b"1e9", b"NaN", b"\\", b"\0", b" ",
          b"\n", b"99999999999999999999", b"-1", b"[[[[[[", b"\xff", b'"root":', b'{"data":{}}']


def mutated(data: bytes, rng: random.Random) -> bytes:
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, token = rng.randrange(len(data) + 1), rng.choice(TOKENS)
        how = rng.randrange(6)
        if how == 0:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            data[at:at] = token
        elif how == 2:
            del data[at:at + rng.choice((1, 2, 8, 33, 1000))]
        elif how == 3:
            data = data[:at]
        elif how == 4:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start:start + rng.choice((1, 10, 100, 3000))]
        else:
            data[at:at + len(token)] = token
    return bytes(data)


@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutations(count):
    """A clear refusal, or what makes a proof: whose witness satisfies the circuit, now and then looked at."""
    rng, accepted = random.Random(count), 0
    for i in range(count):
        data = [lambda: mutated(JSON, rng), lambda: mutated(BINARY, rng), lambda: mutated(WRAPPER, rng),
                lambda: sealing.as_wrapper(mutated(JSON, rng), 1, 2048)][i % 4]()
        miner, number = rng.choice((None, "1000")), rng.choice((None, 1))
        try:
            prepared = porep.Request(data, miner=miner, sector_number=number).prepare()
        except CuzkError as error:
            assert error.exit == Exit.INPUT
            continue
        accepted += 1
        if accepted % 20 == 1:
            a = circuits.synthesise("porep", 2048, prepared.witness(0))
            assert columns.unsatisfied(a) == 0 and (a.inputs[1:] == prepared.public_inputs(0)).all()
    assert accepted


# ---- size
_MEASURE = """
import sys
from cuzk_cli.sectors import c1
c1.parse(open(sys.argv[1], "rb").read())
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
before = peak()
c1.parse(open(sys.argv[2], "rb").read())
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("form", ["json", "wrapper"])
def test_memory_of_a_real_file(tmp_path, form):
    """Above what the parser itself takes, at most three times the file."""
    one, value = made(32 << 30)
    data = sealing.as_json(value)
    data = data if form == "json" else sealing.as_wrapper(data, one.number, 32 << 30)
    assert len(data) > 35_000_000
    (tmp_path / "c1.json").write_bytes(data)
    done = subprocess.run([sys.executable, "-c", _MEASURE, FIXTURES / "s-t01000-1.c1.json", tmp_path / "c1.json"],
                          capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) <= 3 * len(data)
