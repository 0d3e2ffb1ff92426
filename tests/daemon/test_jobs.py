"""The table of jobs under random orders of everything that can happen; and what JAX says of devices."""
import asyncio
import random
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cuzk_cli.daemon import jobs as table
from cuzk_cli.daemon.jobs import Jobs, Refused
from cuzk_cli.daemon.requests import Asked
from cuzk_cli.daemon.service import Device

REQUEST = SimpleNamespace(kind="snap", label="s-t01000-1")


class Ticket:
    """Ends once: with a result, a failure, by a cancel, or broken."""

    def __init__(self, number: int):
        self.job_id, self.result, self.late, self.fetched = f"p{number}", Future(), False, 0

    def end(self, how: str) -> None:
        if self.result.done():
            return
        if how == "broken":
            self.result.set_exception(ZeroDivisionError("x"))
        else:
            self.result.set_result({"ok": how == "done", "exit": 0 if how == "done" else 10,
                                    "errors": [] if how == "done" else [{"message": how}]})

    def delivered(self) -> None:
        self.fetched += 1

    def cancel(self, reason: str) -> bool:
        if self.late or self.result.done():
            return False
        self.end("cancelled")
        return True


class Prover:
    def __init__(self):
        self.tickets: list[Ticket] = []

    def submit(self, request, priority, deadline, held) -> Ticket:
        self.tickets.append(Ticket(len(self.tickets)))
        return self.tickets[-1]


@pytest.mark.parametrize("seed", range(30))
def test_every_job_has_one_answer(seed, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(table, "KEPT", 40)
    chance = random.Random(seed)
    with ThreadPoolExecutor(1) as executor:
        asyncio.run(_story(chance, executor))


async def _story(chance: random.Random, executor) -> None:
    prover, told = Prover(), []
    jobs = Jobs(prover, executor, told.append)
    seen, waits = {}, []
    for _ in range(300):
        step = chance.choice(["submit"] * 4 + ["end"] * 3 + ["cancel", "wait", "pause", "late"])
        if step == "submit":
            id = chance.choice(["", *map(str, range(20))])
            content = bytes([chance.randrange(3)])
            before = jobs._jobs.get(id)
            try:
                job, joined = jobs.submit(Asked(REQUEST, content, 10, id), keep=chance.random() < 0.5)
            except Refused:
                assert not before.done.done() and before.content != content
                continue
            assert job.content == content and (job is before) == joined
            seen[job] = True
        elif step == "end" and prover.tickets:
            chance.choice(prover.tickets).end(chance.choice(["done", "done", "failed", "broken"]))
        elif step == "late" and prover.tickets:
            chance.choice(prover.tickets).late = True
        elif step == "cancel" and seen:
            waits.append(asyncio.ensure_future(jobs.cancel(chance.choice(list(seen)), "not needed")))
        elif step == "wait" and seen:
            waits.append(asyncio.ensure_future(jobs.wait(chance.choice(list(seen)), chance.choice([None, 0.001]))))
        elif step == "pause":
            await asyncio.sleep(0.002)
        assert jobs._finished == sum(job.done.done() for job in jobs._jobs.values()) <= 40
        assert jobs._held == 10 * len(jobs.unfinished())
    while jobs.unfinished():
        for ticket in prover.tickets:
            ticket.end("done")
        await asyncio.sleep(0.001)
    await asyncio.gather(*waits)
    assert all(job.done.done() and job.outcome is not None and job.ticket is None for job in seen)
    assert jobs._held == 0 and len(told) == len(seen)
    assert len(prover.tickets) <= len(seen)
    for wait in waits:
        outcome = wait.result()
        assert outcome in (None, True, False) or outcome.state in ("done", "failed", "cancelled")


def test_devices(monkeypatch):
    from cuzk_cli.daemon.devices import devices

    gpu = SimpleNamespace(device_kind="NVIDIA H200", memory_stats=lambda: {"bytes_limit": 100, "bytes_in_use": 40})
    cpu = SimpleNamespace(device_kind="cpu", memory_stats=lambda: None)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=lambda: [gpu, cpu]))
    assert devices() == {0: Device("NVIDIA H200", 100, 60), 1: Device("cpu", 0, 0)}
