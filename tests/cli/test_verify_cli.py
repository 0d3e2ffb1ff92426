"""`cuzk verify snap` with the published proof: every form of it, every way in which it can be wrong."""
import base64
import json
import random

import pytest

from cuzk_cli.cli import output
from cuzk_cli.sectors.commitments import to_cid

from .fixed import FACTS, OTHER, PARAMS, PROOF, SECTOR, VK, commitments, copy

FORMS = {
    "raw": PROOF,
    "hex": PROOF.hex().encode() + b"\n",
    "base64": base64.b64encode(PROOF) + b"\n",
    "result": json.dumps({"proof": PROOF.hex(), "ok": True}).encode(),
    "report": json.dumps({"schema_version": 1, "results": [{"proof": PROOF.hex()}]}).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_from_a_file_and_from_standard_input(inside, tmp_path, form):
    (tmp_path / "p").write_bytes(FORMS[form])
    of_a_sector = inside("verify", "snap", SECTOR, "--proof", tmp_path / "p", "--vk", VK)
    of_facts = inside("verify", "snap", *commitments(), "--proof", "-", "--vk", VK, stdin=FORMS[form])
    for found in (of_a_sector, of_facts):
        assert found.code == 0 == found.json["exit"] and not found.lines
        assert found.json["ok"] is found.json["verified"] is True and found.json["partitions_verified"] == [True]
    assert of_a_sector.json["commitments"] == of_facts.json["commitments"]
    assert of_a_sector.json["public_inputs"] == of_facts.json["public_inputs"]
    assert of_a_sector.json["sector"] == "s-t01000-1" and of_facts.json["sector"] is None


@pytest.mark.parametrize("write", [
    lambda name, value: value.upper(), lambda name, value: "0x" + value,
    lambda name, value: base64.b64encode(bytes.fromhex(value)).decode(),
    lambda name, value: to_cid("comm_d" if name == "comm_d_new" else "comm_r", bytes.fromhex(value))],
    ids=["upper case", "0x", "base64", "CID"])
def test_commitments_as_people_have_them(inside, write):
    names = ("comm_r_old", "comm_r_new", "comm_d_new")
    facts = commitments(**{name: write(name, FACTS[name]) for name in names})
    assert inside("verify", "snap", *facts, "--proof", "-", "--vk", VK, stdin=PROOF).code == 0


def wrong(inside, proof, *where, code=14):
    found = inside("verify", "snap", *(where or commitments()), "--proof", "-", "--vk", VK, stdin=proof)
    assert found.code == code == found.json["exit"], (found, code)
    assert found.json["ok"] is found.json["verified"] is False and len(found.lines) == len(found.json["errors"]) == 1
    assert found.lines[0] == "cuzk: " + found.json["errors"][0]["message"]
    return found


def test_one_flipped_bit_in_any_byte(inside):
    bits = random.Random(1)
    for at in range(192):
        bad = bytearray(PROOF)
        bad[at] ^= 1 << bits.randrange(8)
        wrong(inside, bytes(bad).hex().encode())


A, B, C = PROOF[:48], PROOF[48:144], PROOF[144:]
NO_G1, NO_G2 = b"\xc0" + bytes(47), b"\xc0" + bytes(95)     # the points at infinity


@pytest.mark.parametrize("proof", [
    NO_G1 + B + C, A + NO_G2 + C, A + B + NO_G1, NO_G1 + NO_G2 + NO_G1, C + B + A, A + B + A,
    bytes([A[0] ^ 0x20]) + PROOF[1:], A + bytes([B[0] ^ 0x20]) + B[1:] + C, A + B + bytes([C[0] ^ 0x20]) + C[1:],
    bytes(192), b"\xff" * 192, b"\x80" + bytes(191)],
    ids=["no A", "no B", "no C", "nothing", "A and C exchanged", "A twice", "-A", "-B", "-C", "zeros", "ones", "x = 0"])
def test_points_that_are_not_the_proof_s(inside, proof):
    wrong(inside, proof.hex().encode())


@pytest.mark.parametrize("length", [1, 48, 144, 191, 193, 384, 1920])
def test_wrong_length(inside, length):
    found = wrong(inside, (PROOF * 10)[:length].hex().encode())
    assert "192 bytes" in found.lines[0] and f"{length} bytes" in found.lines[0]


@pytest.mark.parametrize("data", [b"", b"\n", b"no proof!", b"{}", b'{"proof": null}', PROOF.hex().encode()[:-1] + b"!",
                                  PROOF[:100], b"<html>404</html>"])
def test_what_is_no_proof_at_all(inside, data):
    assert "standard input" in wrong(inside, data, code=10).lines[0]


@pytest.mark.parametrize("name", ["", ".", "plain/below", "none", "nul\0"])
def test_a_file_that_cannot_be_read(inside, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_bytes(PROOF)
    found = inside("verify", "snap", SECTOR, "--proof", name, "--vk", VK)
    assert found.code == 10 == found.json["exit"] and len(found.lines) == 1


def test_the_proof_of_other_input(inside):
    wrong(inside, PROOF, str(OTHER))
    wrong(inside, PROOF, *commitments(comm_r_old=FACTS["comm_r_new"], comm_r_new=FACTS["comm_r_old"]))
    for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
        value = bytearray.fromhex(FACTS[name])
        value[0] ^= 1
        wrong(inside, PROOF, *commitments(**{name: value.hex()}))


def test_a_damaged_sector_is_input(inside, tmp_path):
    sector = copy(tmp_path / "s")
    (tmp_path / "s" / "cache" / "s-t01000-1" / "p_aux").unlink()
    found = inside("verify", "snap", sector, "--proof", "-", "--vk", VK, stdin=PROOF)
    assert found.code == 10 and len(found.lines) == 1 and "p_aux" in found.lines[0]


def test_problems_as_objects_only(inside):
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--vk", VK, "--json-errors", stdin=PROOF[::-1])
    assert found.code == 14 and not found.lines and len(found.json["errors"]) == 1


@pytest.mark.parametrize("arguments, named", [
    (["--proof", "p"], "--comm-r-old --comm-r-new --comm-d-new --sector-size"),
    (["--proof", "p", "--sector-size", "2KiB"], "--comm-d-new"),
    (["--proof", "p", *commitments()[:-2]], "--sector-size"),
    (["--proof", "p", *commitments()[:-1], "3KiB"], "3KiB"),
    (["--proof", "p", *commitments(comm_d_new="zz")], "--comm-d-new"),
    (["--proof", "p", *commitments(comm_d_new="ff" * 32)], "--comm-d-new"),
    (["--proof", "p", *commitments(), "--partition", "1"], "--partition"),
    (["--proof", "p", *commitments(), "--partition", "x"], "--partition"),
    (["--proof", "p", *commitments(), "--params", "d", "--test-params"], "--test-params"),
    (["--proof", "p", "no-sector"], "no-sector"), ([str(SECTOR)], "--proof"), (["--proof"], "--proof"),
    (["--nonsense"], "--nonsense")])
def test_usage(inside, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").write_bytes(PROOF)
    found = inside("verify", "snap", *arguments)
    assert found.code == 2
    if found.out:       # what Typer itself refuses has no object
        assert found.json["exit"] == 2 and named in " ".join(found.lines)


# ---- the verifying key
def edited(at, byte):
    data = bytearray(VK.read_bytes())
    data[at] ^= byte
    return bytes(data)


BAD_KEYS = {
    "empty": b"", "half": VK.read_bytes()[:700], "one byte short": VK.read_bytes()[:-1],
    "one byte long": VK.read_bytes() + b"\0", "a page": b"<html>502 Bad Gateway</html>" * 60,
    "another circuit": next(PARAMS.glob("*fallback*.vk")).read_bytes(), "zeros": bytes(VK.stat().st_size),
    "alpha off the curve": edited(95, 1), "gamma off the curve": edited(575, 1), "ic off the curve": edited(-1, 1),
    "a point at infinity": edited(0, VK.read_bytes()[0] ^ 0x40), "a long ic": edited(864, 0x7F),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_bad_key(inside, tmp_path, name):
    path = tmp_path / VK.name
    path.write_bytes(BAD_KEYS[name])
    for where in (["--vk", path], ["--params", tmp_path]):
        found = inside("verify", "snap", *commitments(), "--proof", "-", *where, stdin=PROOF)
        assert found.code == 11 == found.json["exit"] and len(found.lines) == 1 and str(path) in found.lines[0], found


@pytest.mark.parametrize("name", ["none", "folder", "plain/below"])
def test_a_key_that_cannot_be_read(inside, tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--vk", tmp_path / name, stdin=PROOF)
    assert found.code == 11 and len(found.lines) == 1 and str(tmp_path / name) in found.lines[0]


def test_the_key_in_a_folder_of_parameters(inside, monkeypatch):
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--params", PARAMS, stdin=PROOF)
    assert found.code == 0 and found.json["verifying_key"] == str(VK)
    assert found.json["network_accepts"] is False       # its digest is not the published one
    monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", str(PARAMS))
    assert inside("verify", "snap", *commitments(), "--proof", "-", stdin=PROOF).json["verifying_key"] == str(VK)


def test_the_key_that_was_used_says_whether_the_network_accepts(inside, tmp_path):
    """A verdict that is remembered of the parameters beside it does not."""
    from cuzk_cli.params import digests
    from cuzk_cli.protocol.table import DIGESTS

    (tmp_path / VK.name).write_bytes(VK.read_bytes())
    params = tmp_path / f"{VK.stem}.params"
    params.write_bytes(b"the network's")
    digests.remember(params, DIGESTS["snap", "2KiB"][0])
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--params", tmp_path, stdin=PROOF)
    assert found.code == 0 and found.json["network_accepts"] is False


def test_the_head_of_a_parameter_file_is_a_key(inside, tmp_path):
    path = tmp_path / f"{VK.stem}.params"
    path.write_bytes(VK.read_bytes() + bytes(1000))
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--params", tmp_path, stdin=PROOF)
    assert found.code == 0 and found.json["verifying_key"] == str(path)


def test_a_marked_folder_is_a_warning_and_not_the_network_s(inside, tmp_path):
    (tmp_path / VK.name).write_bytes(VK.read_bytes())
    (tmp_path / "TEST-PARAMETERS.json").write_text('{"seed": "cuzk"}')
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--params", tmp_path, stdin=PROOF)
    assert found.code == 0 and found.json["network_accepts"] is False
    assert found.warnings == ["cuzk: warning: " + found.json["warnings"][0]] and "TEST-PARAMETERS" in found.warnings[0]
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--vk", tmp_path / VK.name, stdin=PROOF)
    assert found.code == 0 and found.json["network_accepts"] is False


def test_an_unpublished_key_is_no_refusal(inside):
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--vk", VK, stdin=PROOF)
    assert found.code == 0 and found.json["network_accepts"] is False


def test_no_key_anywhere_says_what_to_fetch(inside, tmp_path):
    found = inside("verify", "snap", *commitments(), "--proof", "-", "--params", tmp_path, stdin=PROOF)
    assert found.code == 11 and len(found.lines) == 1
    assert VK.name in found.lines[0] and "1348 bytes" in found.lines[0] and "lotus fetch-params 2KiB" in found.lines[0]


def test_it_is_read_as_it_was_written(inside, tmp_path):
    """What `prove` writes in each format is what `verify` reads."""
    for format in output.FORMATS:
        output.write(tmp_path / "p", output.encode({"proof": PROOF.hex(), "ok": True}, format), True)
        assert inside("verify", "snap", *commitments(), "--proof", tmp_path / "p", "--vk", VK).code == 0
