"""NATS and its in-memory twin behave the same; gaps are counted; a lost server is survived."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import nats
import pytest

from headrace import failpoints
from headrace.bus import bus as bus_module
from headrace.bus import nats_bus, subjects
from headrace.bus.bus import EVENT_GAPS, LEASES, Bus, GapCounter, Numbering, StoreAway
from headrace.bus.memory_bus import MemoryBus
from headrace.bus.nats_bus import NatsBus
from headrace.supervisor.nats_server import LocalNats
from headrace.v1.events_pb2 import ServiceDeregistered, ServiceRegistered

pytestmark = pytest.mark.anyio
REGISTERED = subjects.registered("worker")


class NatsServer:
    """A real server on a port of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalNats(folder)
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = self.local.command(-1 if self.local.port is None else self.local.port)
        quiet = asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        await until(lambda: False, self.local.is_ready)

    async def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
            self.process = None


async def until(condition: Callable[[], bool], probe: Callable[[], object] | None = None) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        if probe is not None and await probe():  # type: ignore[misc]
            return
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def a_busy_machine_is_no_lost_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_bus, "REQUEST_TIMEOUT", 15.0)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(tmp_path)
    await server.start()
    yield server
    await server.kill()


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.process)])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus()
        return
    server = NatsServer(tmp_path)
    await server.start()
    over_nats = NatsBus(server.local.url, "test")
    over_nats.start()
    await until(lambda: over_nats.connected)
    yield over_nats
    await over_nats.close()
    await server.kill()


async def test_facts_reach_whoever_listens(bus: Bus) -> None:
    heard: list[str] = []
    await bus.subscribe(REGISTERED, ServiceRegistered, lambda event: heard.append(event.service_id))
    for name in ("a", "b"):
        await bus.publish(subjects.of(REGISTERED, name), ServiceRegistered(service_id=name))
    await bus.publish(subjects.of(subjects.WORKER_DEREGISTERED, "c"), ServiceDeregistered(service_id="c"))
    await until(lambda: heard == ["a", "b"])


async def test_the_registry_keeps_what_was_put(bus: Bus) -> None:
    await bus.put("a", ServiceRegistered(service_id="a", epoch=1))
    await bus.put("a", ServiceRegistered(service_id="a", epoch=2))
    await bus.put("b", ServiceRegistered(service_id="b"))
    entries = await bus.entries(ServiceRegistered)
    assert sorted((entry.service_id, entry.epoch) for entry in entries) == [("a", 2), ("b", 0)]
    await bus.delete("a")
    assert [entry.service_id for entry in await bus.entries(ServiceRegistered)] == ["b"]


@pytest.mark.process
async def test_connecting_is_told_again_after_a_loss(nats_server: NatsServer) -> None:
    connects: list[float] = []
    heard: list[str] = []
    bus = NatsBus(nats_server.local.url, "test")
    bus.on_connect(lambda: connects.append(time.monotonic()))
    await bus.subscribe(REGISTERED, ServiceRegistered, lambda event: heard.append(event.service_id))
    bus.start()
    await until(lambda: len(connects) == 1)
    await nats_server.kill()
    await until(lambda: not bus.connected)
    await bus.publish("headrace.v1.worker.x.registered", ServiceRegistered(service_id="lost"))
    await bus.put("x", ServiceRegistered(service_id="x"))
    assert await bus.entries(ServiceRegistered) == []
    await nats_server.start()
    await until(lambda: len(connects) == 2)
    await bus.publish("headrace.v1.worker.x.registered", ServiceRegistered(service_id="found"))
    await until(lambda: heard == ["found"])
    await bus.close()


@pytest.mark.process
async def test_a_bucket_that_somebody_deleted_is_made_again(nats_server: NatsServer) -> None:
    bus = NatsBus(nats_server.local.url, "test")
    bus.start()
    await until(lambda: bus.connected)
    assert await bus.swap("lease", ServiceRegistered(service_id="first"), 0) is not None
    operator = await nats.connect(nats_server.local.url)
    assert await operator.jetstream().delete_key_value(LEASES.bucket)
    await operator.close()
    assert await bus.read("lease", ServiceRegistered) is None
    with contextlib.suppress(StoreAway):
        await bus.swap("lease", ServiceRegistered(service_id="second"), 0)
    assert await bus.swap("lease", ServiceRegistered(service_id="second"), 0) is not None
    found = await bus.read("lease", ServiceRegistered)
    assert found is not None
    assert found.message.service_id == "second"
    await bus.close()


@pytest.mark.process
async def test_a_failpoint_drops_doubles_and_swaps_facts(nats_server: NatsServer, tmp_path: Path) -> None:
    heard: list[str] = []
    bus = NatsBus(nats_server.local.url, "test")
    await bus.subscribe(REGISTERED, ServiceRegistered, lambda event: heard.append(event.service_id))
    bus.start()
    await until(lambda: bus.connected)
    failpoints.arm(tmp_path)
    try:
        for action, name in (("drop", "a"), ("twice", "b"), ("swap", "c"), ("swap", "d"), ("", "last")):
            (tmp_path / "bus.publish").write_text(action)
            await bus.publish("headrace.v1.worker.x.registered", ServiceRegistered(service_id=name))
    finally:
        failpoints.arm(None)
    await until(lambda: heard[-1:] == ["last"])
    assert heard == ["b", "b", "d", "c", "last"]
    await bus.close()


async def test_a_bus_without_a_server_starts_and_stops() -> None:
    bus = NatsBus("nats://127.0.0.1:1", "test")
    bus.start()
    await bus.publish("headrace.v1.worker.x.registered", ServiceRegistered())
    assert not bus.connected
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(bus.close(), 5)
    assert not bus.connected


def test_gaps_are_counted_and_restarts_are_not_gaps() -> None:
    numbering, gaps = Numbering("p"), GapCounter()
    headers = [numbering.headers("s") for _ in range(5)]
    assert [gaps.count_missing("s", headers[index]) for index in (0, 1, 4)] == [0, 0, 2]
    again = Numbering("p")
    assert gaps.count_missing("s", again.headers("s")) == 0


def test_an_event_that_was_overtaken_is_one_gap() -> None:
    numbering, gaps = Numbering("p"), GapCounter()
    headers = [numbering.headers("s") for _ in range(4)]
    assert [gaps.count_missing("s", headers[index]) for index in (0, 2, 1, 3)] == [0, 1, 0, 0]


def test_workers_that_come_and_go_leave_no_numbers_and_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_SUBJECTS", 10)
    gaps = GapCounter()
    labels = {sample.labels["subject"] for metric in EVENT_GAPS.collect() for sample in metric.samples}
    for worker in range(100):
        numbering, subject = Numbering(f"w{worker}"), subjects.of(subjects.BLOCKS_CHANGED, f"w{worker}")
        headers = [numbering.headers(subject) for _ in range(3)]
        assert gaps.count_missing(subject, headers[0]) == 0
        assert gaps.count_missing(subject, headers[2]) == 1
    assert len(gaps) == 10
    samples = [sample for metric in EVENT_GAPS.collect() for sample in metric.samples]
    assert {sample.labels["subject"] for sample in samples} <= {*labels, subjects.BLOCKS_CHANGED}


@pytest.mark.parametrize(
    "pattern", [value for name, value in vars(subjects).items() if name.isupper() and isinstance(value, str)]
)
def test_every_subject_has_its_pattern(pattern: str) -> None:
    assert subjects.pattern_of(subjects.of(pattern, "worker-0")) == pattern
    assert subjects.pattern_of(subjects.of(pattern, "a.dotted.name")) == pattern
    assert subjects.pattern_of(pattern) == pattern


async def test_questions_are_answered_by_all_who_can(bus: Bus) -> None:
    """One of three has nothing to say. The wait ends with its time, or once the expected answers are there."""
    await until(lambda: bus.connected)
    for name in ("a", "b", ""):
        told = ServiceDeregistered(service_id=name) if name else None
        await bus.answer(subjects.REQUESTS_ASKED, ServiceRegistered, lambda _, told=told: told)  # type: ignore[misc]
    subject, question = subjects.of(subjects.REQUESTS_ASKED, "asker"), ServiceRegistered(service_id="asker")
    both = await bus.ask(subject, question, ServiceDeregistered, 2, 10.0)
    assert sorted(each.service_id for each in both) == ["a", "b"]
    assert len(await bus.ask(subject, question, ServiceDeregistered, 1, 10.0)) == 1
    assert len(await bus.ask(subject, question, ServiceDeregistered, 3, 0.2)) == 2
    assert await bus.ask("headrace.v1.nobody.x.asked", question, ServiceDeregistered, 1, 0.05) == []
