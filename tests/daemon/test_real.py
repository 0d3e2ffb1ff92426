"""The daemon as a process, with a real prover of a small circuit, asked by curio's client."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from cuzk_cli.daemon import requests
from cuzk_cli.daemon.proto import proving
from cuzk_cli.params.format import read_verifying_key
from cuzk_cli.prove import memory, verifier
from cuzk_cli.prove.options import Options
from cuzk_cli.status import read_status
from tests import tiny

from ..cli.fixed import STORAGE
from .conftest import post, snap
from .curio import Curio
from .test_service import until

ROOT = Path(__file__).parents[2]


class Daemon:
    """One process after another in the same folders."""

    def __init__(self, folder: Path, params: Path, classes):
        self.folder, self.params, self._classes = folder, params, classes
        self.log = folder / "log"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CUZK_")} | {
            "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(ROOT)}
        self.process, self.channel, self.curio = None, None, None

    def start(self, *command: str) -> Curio:
        """The small circuit's, or another command of `python -m`."""
        self.log.write_text("")
        command = command or ("tests.tiny.daemon", "--params", self.params, "--workers", "1")
        self.process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=self.environment,
                                        stdout=subprocess.DEVNULL, stderr=open(self.log, "wb"), stdin=subprocess.DEVNULL)
        until(lambda: "listening on" in self.log.read_text() or self.process.poll() is not None, 60)
        self.channel = grpc.insecure_channel(f"unix:{self.folder}/cuzk/daemon/cuzk.sock")
        self.curio = Curio(self.channel, self._classes)
        return self.curio

    def end(self, number: int = signal.SIGTERM) -> int:
        self.channel.close()
        self.process.send_signal(number)
        return self.process.wait(20)

    def pids(self) -> list[int]:
        """The daemon's and those of its synthesis."""
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
        return [self.process.pid, *found]

    def verifies(self, proof: bytes, value: int, count: int) -> bool:
        key = verifier.prepare(read_verifying_key(self.params / "v28-tiny.vk"))
        inputs = [tiny.Prepared(tiny.Request(value, count)).public_inputs(k) for k in range(count)]
        return len(proof) == 192 * count and all(verifier.verify_partitions(key, inputs, proof))


@pytest.fixture(scope="module")
def params(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "params"
    code = ("import sys, pathlib; from cuzk_cli.kernels import runtime; runtime.setup('cpu'); from tests import tiny; "
            "tiny.install(); tiny.generate(pathlib.Path(sys.argv[1]))")
    subprocess.run([sys.executable, "-c", code, folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture
def stopped(params, classes):
    """A Daemon that is not started."""
    with tempfile.TemporaryDirectory(prefix="cuzk") as folder:
        made = Daemon(Path(folder), params, classes)
        yield made
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait()
        assert "Traceback" not in made.log.read_text()


@pytest.fixture
def daemon(stopped):
    stopped.start()
    return stopped


def asked(value: int, count: int = 1, **more) -> dict:
    return dict(request_id=f"tiny-{value}", proof_kind=4, sector_size=2048, sector_number=value,
                partition_index=count - 1, **more)


@pytest.mark.slow
def test_every_kind_as_curio_sends_it(stopped):
    """Sectors of 2 KiB under test parameters: the answers' proofs verify."""
    curio = stopped.start("cuzk_cli", "daemon", "--test-params", "--workers", "1")
    replica = (STORAGE / "s-t01000-1.c1.json").read_bytes()
    sent = {"winning": post("winning"), "window": post("window"), "snap": snap(),
            "porep": dict(proof_kind=1, sector_size=2048, registered_proof=5, priority=2, vanilla_proof=replica,
                          sector_number=1, miner_id=1000)}
    for kind, fields in sent.items():
        curio.SubmitProof(timeout=60, request_id=kind, **fields)
    for kind, fields in sent.items():
        found = curio.AwaitProof(timeout=1800, job_id=kind)
        assert found.status == 1, (kind, found.error_message)
        prepared = requests.from_message(proving.SubmitProofRequest(**fields)).request.prepare()
        located = Options(test_params=True).located(kind, prepared.size)
        inputs = [prepared.public_inputs(k) for k in prepared.partitions]
        key = verifier.prepare(read_verifying_key(located.vk))
        assert len(found.proof) == 192 and all(verifier.verify_partitions(key, inputs, found.proof)), kind
    assert sorted(each.circuit_id for each in curio.GetStatus().loaded_srs) == [
        "porep-2k", "snap-2k", "winning-2k", "wpost-2k"]
    assert curio.GetStatus().total_proofs_completed == 4 and stopped.end() == 0


@pytest.mark.slow
def test_submit_await_cancel_and_status(daemon):
    curio = daemon.curio
    assert curio.SubmitProof(**asked(1, 2)).job_id == "tiny-1"
    found = curio.AwaitProof(job_id="tiny-1", timeout_ms=120_000)
    assert found.status == 1 and daemon.verifies(found.proof, 1, 2)
    assert found.total_ms >= found.gpu_compute_ms > 0 and found.synthesis_ms > 0
    for n in range(6):                  # what is cancelled can be asked for again, at once
        curio.SubmitProof(**asked(100 + n, 4))
        time.sleep(random.Random(n).uniform(0, 0.2))
        if curio.CancelProof(job_id=f"tiny-{100 + n}").was_running:
            assert curio.AwaitProof(job_id=f"tiny-{100 + n}").status == 3
        again = curio.Prove(timeout=120, submit=curio.messages.SubmitProofRequest(**asked(100 + n, 4))).result
        assert again.status == 1 and daemon.verifies(again.proof, 100 + n, 4), again.error_message
    until(lambda: not any(gpu.current_job_id for gpu in curio.GetStatus().gpus))
    status = curio.GetStatus()
    assert status.total_proofs_completed >= 7 and status.gpus[0].name and status.uptime_seconds > 0
    assert daemon.end() == 0


@pytest.mark.slow
def test_joined_by_other_ids(daemon):
    """Two clients that ask for the same get the same proof, and one that cancels takes nothing from the other."""
    curio = daemon.curio
    fields = asked(7, 16)
    ids = ["a", "b", "c"]
    for id in ids:
        curio.SubmitProof(**fields | {"request_id": id})
    curio.CancelProof(job_id="a")
    proofs = {curio.AwaitProof(job_id=id, timeout_ms=120_000).proof for id in "bc"}
    assert len(proofs) == 1 and daemon.verifies(proofs.pop(), 7, 16)


@pytest.mark.slow
def test_killed_with_ten_jobs(daemon):
    """What was proved is not lost: the next daemon takes it up when the jobs are submitted again."""
    curio = daemon.curio
    for value in range(10):
        curio.SubmitProof(**asked(100 * value, 8))
    state = daemon.folder / "cuzk"
    until(lambda: len(list((state / "journal").glob("*/*.json"))) >= 4, 120)
    workers = daemon.pids()[1:]
    assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
    kept = {path.parent.name.split("-")[2] for path in (state / "journal").glob("*/*.json")}
    assert kept and read_status(state)["gpu_workers"] == []
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers))
    curio = daemon.start()
    for value in range(10):
        curio.SubmitProof(**asked(100 * value, 8))
    for value in range(10):
        found = curio.AwaitProof(job_id=f"tiny-{100 * value}", timeout_ms=240_000)
        assert found.status == 1 and daemon.verifies(found.proof, 100 * value, 8), found.error_message
    assert daemon.end() == 0
    assert not list((state / "journal").glob("*/*.json")) and not list((state / "locks").iterdir())
    assert not list((state / "daemon").iterdir())


@pytest.mark.slow
def test_killed_before_proofs_are_fetched(daemon):
    """What is finished and not fetched is kept as well, and the same proofs come from the next daemon."""
    journal = daemon.folder / "cuzk" / "journal"
    kept = lambda: {path.parent.name: json.loads(path.read_text())["proof"] for path in journal.glob("*/*.json")}
    curio = daemon.curio
    for value in (1, 2, 3):
        curio.SubmitProof(**asked(value))
    until(lambda: curio.GetStatus().total_proofs_completed == 3, 120)
    curio.AwaitProof(job_id="tiny-3")
    until(lambda: len(kept()) == 2)
    before = sorted(kept().values())
    daemon.end(signal.SIGKILL)
    curio = daemon.start()
    found = [curio.Prove(timeout=120, submit=curio.messages.SubmitProofRequest(**asked(value))).result.proof
             for value in (1, 2)]
    assert sorted(proof.hex() for proof in found) == before and daemon.verifies(found[0], 1, 1)
    until(lambda: not kept())
    assert daemon.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_with_ten_jobs(daemon, number):
    curio = daemon.curio
    waiting = [curio.future("Prove", submit=curio.messages.SubmitProofRequest(**asked(100 * value, 8)))
               for value in range(10)]
    until(lambda: any(gpu.current_job_id for gpu in curio.GetStatus().gpus), 60)
    started = time.monotonic()
    daemon.process.send_signal(number)
    assert daemon.process.wait(20) == 128 + number and time.monotonic() - started < 5
    assert {call.code().name for call in waiting} <= {"UNAVAILABLE", "OK"}
    state = daemon.folder / "cuzk"
    assert not list((state / "locks").iterdir()) and read_status(state)["gpu_workers"] == []


@pytest.mark.slow
@pytest.mark.long
def test_a_thousand_jobs(daemon):
    """None is lost, none doubled, and memory is flat."""
    curio, resident = daemon.curio, []

    def one(value: int):
        return curio.Prove(timeout=600, submit=curio.messages.SubmitProofRequest(**asked(value))).result

    with ThreadPoolExecutor(32) as threads:
        found = []
        for result in threads.map(one, range(1000)):
            found.append(result)
            if len(found) % 100 == 0:
                resident.append(memory.resident(daemon.pids()))
    assert [each.job_id for each in found] == [f"tiny-{value}" for value in range(1000)]
    assert {each.status for each in found} == {1} and len({each.proof for each in found}) == 1000
    assert all(daemon.verifies(found[value].proof, value, 1) for value in range(0, 1000, 50))
    assert curio.GetStatus().total_proofs_completed == 1000
    counters = read_status(daemon.folder / "cuzk")["counters"]
    assert counters["total_completed"] == counters["epochs_done"] == 1000 and counters["jobs_replaced"] == 0
    assert abs(resident[-1] - resident[0]) < 0.05 * resident[0], resident
