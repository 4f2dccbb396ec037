"""NATS knows a service by its certificate: roles do what they must, and a renewed certificate is shown at the next
connect."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.bus import subjects
from headrace.bus.bus import BATCHES, LEASES, LIMITS, StoreAway
from headrace.bus.nats_bus import NatsBus
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import read_identity
from headrace.security.nats_login import NatsLogin
from headrace.supervisor.nats_server import LocalNats
from headrace.v1.events_pb2 import BatchHeld, BudgetChanged, LeaseHeld, ServiceRegistered, WorkerHeartbeatSent

pytestmark = [pytest.mark.anyio, pytest.mark.process]


class GuardedNats:
    """A real server that knows its clients by certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates = CertificateFolder(folder / "certificates")
        self.certificates.create()
        self.local = LocalNats(folder / "nats", "", self.certificates.role_folder("nats"), self.login("operator"))
        self._process: asyncio.subprocess.Process | None = None
        self._buses: list[NatsBus] = []

    def login(self, role: str) -> NatsLogin:
        return NatsLogin(read_identity(self.certificates.role_folder(role)))

    async def start(self) -> None:
        command = self.local.command(-1 if self.local.port is None else self.local.port)
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + 15
        while not await self.local.is_ready():
            assert time.monotonic() < deadline, "NATS did not start"
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def bus(self, role: str) -> NatsBus:
        """Returns a connected bus of a role."""
        bus = NatsBus(self.local.url, role, self.login(role))
        self._buses.append(bus)
        bus.start()
        await until(lambda: bus.connected)
        return bus

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close()
        await self.stop()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def note(heard: list[str], name: str, _event: object) -> None:
    heard.append(name)


async def say(bus: NatsBus, patterns: list[str], is_heard: Callable[[], bool]) -> None:
    """Says something again and again until it is heard: what comes before a subscription is lost."""
    deadline = time.monotonic() + 15
    while not is_heard():
        assert time.monotonic() < deadline, "nobody heard it"
        for pattern in patterns:
            await bus.publish(subjects.of(pattern, "w"), WorkerHeartbeatSent())
        await asyncio.sleep(0.02)


@pytest.fixture
async def guarded_nats(tmp_path: Path) -> AsyncIterator[GuardedNats]:
    nats = GuardedNats(tmp_path)
    await nats.start()
    yield nats
    await nats.close()


async def test_each_role_does_what_it_must(guarded_nats: GuardedNats) -> None:
    gateway, scheduler, worker, cache, tokenizer = [
        await guarded_nats.bus(role) for role in ("gateway", "scheduler", "worker", "cache", "tokenizer")
    ]
    heard: list[str] = []
    for name, bus in (("gateway", gateway), ("scheduler", scheduler)):
        listen = partial(note, heard, name)
        await bus.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, listen)
    roles = {"scheduler": scheduler, "gateway": gateway, "worker": worker, "cache": cache, "tokenizer": tokenizer}
    for role, bus in roles.items():
        await bus.put(f"{role}.x", ServiceRegistered(service_id=role))
    assert {entry.service_id for entry in await scheduler.entries(ServiceRegistered)} == set(roles)
    assert await gateway.swap("key", BudgetChanged(), 0, LIMITS) == 1
    assert await gateway.read("key", BudgetChanged, LIMITS) is not None
    assert await gateway.swap("batch_x", BatchHeld(gateway="g"), 0, BATCHES) == 1
    assert await gateway.read("batch_x", BatchHeld, BATCHES) is not None
    with pytest.raises(StoreAway):
        await scheduler.read("batch_x", BatchHeld, BATCHES)
    assert await scheduler.swap("lease.x", LeaseHeld(scheduler_id="s"), 0, LEASES) == 1
    assert await scheduler.read("lease.x", LeaseHeld, LEASES) is not None
    await say(worker, [subjects.WORKER_HEARTBEAT], lambda: {"gateway", "scheduler"} <= set(heard))


async def test_nobody_reads_the_budgets_of_keys_but_gateways(guarded_nats: GuardedNats) -> None:
    gateway, worker = await guarded_nats.bus("gateway"), await guarded_nats.bus("worker")
    assert await gateway.swap("key", BudgetChanged(), 0, LIMITS) == 1
    with pytest.raises(StoreAway):
        await worker.read("key", BudgetChanged, LIMITS)


async def test_a_worker_says_nothing_of_schedulers(guarded_nats: GuardedNats) -> None:
    gateway, worker = await guarded_nats.bus("gateway"), await guarded_nats.bus("worker")
    heard: list[str] = []
    for pattern in (subjects.SCHEDULER_HEARTBEAT, subjects.WORKER_HEARTBEAT):
        await gateway.subscribe(pattern, WorkerHeartbeatSent, partial(note, heard, pattern))
    patterns = [subjects.SCHEDULER_HEARTBEAT, subjects.WORKER_HEARTBEAT]
    await say(worker, patterns, lambda: len(heard) >= 3)
    assert set(heard) == {subjects.WORKER_HEARTBEAT}


async def test_a_renewed_certificate_is_shown_at_the_next_connect(guarded_nats: GuardedNats) -> None:
    gateway, bus = await guarded_nats.bus("gateway"), await guarded_nats.bus("tokenizer")
    heard: list[str] = []
    await gateway.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, partial(note, heard, "gateway"))
    # Another role's, so that the server tells by its permissions which one it sees.
    for name in ("tls.crt", "tls.key"):
        path = guarded_nats.certificates.role_folder("worker") / name
        path.replace(guarded_nats.certificates.role_folder("tokenizer") / name)
    await guarded_nats.stop()
    await until(lambda: not bus.connected and not gateway.connected)
    await guarded_nats.start()
    await until(lambda: bus.connected and gateway.connected)
    await say(bus, [subjects.WORKER_HEARTBEAT], lambda: bool(heard))


async def test_a_role_writes_its_own_entries_of_the_registry_alone(guarded_nats: GuardedNats) -> None:
    scheduler, tokenizer = await guarded_nats.bus("scheduler"), await guarded_nats.bus("tokenizer")
    await scheduler.put("scheduler.0", ServiceRegistered(service_id="scheduler-0"))
    await tokenizer.put("tokenizer.0", ServiceRegistered(service_id="tokenizer-0"))

    async def write_and_delete(key: str) -> None:
        await tokenizer.put(key, ServiceRegistered(service_id="evil"))
        await tokenizer.delete(key)

    # NATS answers nothing to what is forbidden.
    await asyncio.gather(*map(write_and_delete, ("worker.0", "gateway.evil", "x", "scheduler.0")))
    found = {entry.service_id for entry in await scheduler.entries(ServiceRegistered)}
    assert found == {"scheduler-0", "tokenizer-0"}


@pytest.mark.parametrize("rollup", ["all", "sub"])
async def test_no_message_removes_others_from_the_registry(guarded_nats: GuardedNats, rollup: str) -> None:
    scheduler, tokenizer = await guarded_nats.bus("scheduler"), await guarded_nats.bus("tokenizer")
    await scheduler.put("scheduler.0", ServiceRegistered(service_id="scheduler-0"))
    await tokenizer.put("tokenizer.0", ServiceRegistered(service_id="tokenizer-0"))
    content = ServiceRegistered(service_id="evil").SerializeToString()
    await tokenizer._client.publish("$KV.headrace_registry.tokenizer.x", content, headers={"Nats-Rollup": rollup})
    await tokenizer._client.flush()
    found = {entry.service_id for entry in await scheduler.entries(ServiceRegistered)}
    assert found == {"scheduler-0", "tokenizer-0"}
