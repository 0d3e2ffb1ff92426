"""A running daemon, curio's client of it, and what curio sends."""
from __future__ import annotations

import base64
import json

import pytest

from cuzk_cli.sectors.commitments import parse

from ..cli.fixed import FACTS, FIXTURES, STORAGE, VANILLA
from . import fake
from .curio import Curio, messages

PROOFS = [base64.b64decode(text) for text in json.loads(VANILLA.read_text())]
COMMITMENTS = {name: parse(FACTS[name], name[:6], name) for name in ("comm_r_old", "comm_r_new", "comm_d_new")}


def snap(**more) -> dict:
    """Fields of a SubmitProofRequest as curio fills them for a sector update."""
    return dict(proof_kind=2, sector_size=2048, priority=2, vanilla_proofs=PROOFS, sector_number=1, miner_id=1000,
                **COMMITMENTS) | more


POSTS = {kind: json.loads((FIXTURES / "posts" / f"{kind}-vanilla.json").read_text()) for kind in ("window", "winning")}


def post(kind: str, **more) -> dict:
    """Fields of a SubmitProofRequest as curio fills them for a PoSt of the published sectors."""
    proofs = [base64.b64decode(entry["vanilla"]) for entry in POSTS[kind]["sectors"]]
    number, proved, priority = {"window": (3, 10, 3), "winning": (4, 0, 4)}[kind]
    return dict(proof_kind=number, sector_size=2048, registered_proof=proved, priority=priority, vanilla_proofs=proofs,
                miner_id=1000, randomness=bytes.fromhex(POSTS[kind]["randomness"])) | more


@pytest.fixture(scope="session")
def classes(tmp_path_factory):
    return messages(tmp_path_factory.mktemp("protoc"))


@pytest.fixture
def daemon():
    """A Running daemon whose storage is that of the published sectors."""
    with fake.running([str(STORAGE)]) as running:
        yield running


@pytest.fixture
def curio(daemon, classes):
    with daemon.channel() as channel:
        yield Curio(channel, classes)


@pytest.fixture
def held(daemon):
    """The daemon's prover, which finishes nothing until `going` is set."""
    daemon.prover.going.clear()
    return daemon.prover
