"""A placement leads to the incarnation that it names, even while the stream to an earlier one looks alive."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.errors import InvalidRequest, ModelNotFound, NotFound, Unavailable
from headrace.errors.tree import WorkerLost
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet import fleet as fleet_module
from headrace.gateway.fleet import model_memory
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.known_workers import KnownWorkers
from headrace.gateway.fleet.model_facts import AdapterFacts, ModelFacts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.lifecycle import Background
from headrace.v1.generation_pb2 import ModelInfo
from headrace.v1.scheduler_pb2 import Place
from headrace.v1.worker_pb2 import AttachRequest, AttachResponse, WorkerHello, WorkerStatus

pytestmark = pytest.mark.anyio


class SilentWorker:
    """Says hello with the epoch that its address names, and then nothing: a half-open connection."""

    def __init__(self, address: str) -> None:
        self._epoch = int(address)

    async def attach(self, commands: AsyncIterator[AttachRequest]) -> AsyncIterator[AttachResponse]:
        yield AttachResponse(hello=WorkerHello(worker_id="w", epoch=self._epoch))
        await asyncio.Event().wait()

    async def close(self) -> None:
        return


def placement(epoch: int) -> Place:
    return Place(worker_id="w", worker_address=str(epoch), worker_epoch=epoch)


async def test_a_stream_to_an_earlier_life_gives_way() -> None:
    fleet = silent_fleet()
    asked = time.monotonic()
    first = await fleet.attachment_for(placement(1), asked, 5)
    second = await fleet.attachment_for(placement(2), time.monotonic(), 5)
    assert second is not first
    assert (second.epoch, second.alive, first.alive) == (2, True, False)
    assert fleet.attached_count == 1
    # A place in the first life that was asked for before the second was met is lost.
    with pytest.raises(WorkerLost):
        await fleet.attachment_for(placement(1), asked, 5)
    assert second.alive
    await fleet.close()


async def test_a_life_that_began_under_a_clock_set_back_is_met() -> None:
    fleet = silent_fleet()
    first = await fleet.attachment_for(placement(2), time.monotonic(), 5)
    second = await fleet.attachment_for(placement(1), time.monotonic(), 5)
    assert (second.epoch, second.alive, first.alive) == (1, True, False)
    await fleet.close()


async def test_an_adapter_is_listed_as_a_model_with_a_parent() -> None:
    fleet = silent_fleet()
    facts = ModelFacts("m", max_model_length=64, adapters=(AdapterFacts("tuned", "f"),))
    fleet.observe(WorkerFacts("w", facts, epoch=1, version=1, address="1"))
    tuned, base = fleet.model("tuned"), fleet.model("m")
    assert (tuned.model, tuned.parent, tuned.fingerprint, tuned.max_model_length) == ("tuned", "m", "f", 64)
    assert (base.parent, base.fingerprint) == ("", "")
    assert [fleet.tokenizer_of(name) for name in ("m", "tuned", "x")] == ["m", "m", "x"]
    await fleet.close()


async def test_models_are_listed_in_the_order_of_the_settings() -> None:
    open_worker: Any = SilentWorker
    fleet = Fleet(GatewaySettings(model_order=("z", "m")), open_worker)
    for number, name in enumerate(("a", "m", "z")):
        facts = ModelFacts(name, adapters=(AdapterFacts(f"tuned-{name}"),))
        fleet.observe(WorkerFacts(f"w{number}", facts, epoch=1, version=1, address="1"))
    assert [model.model for model in fleet.listed()] == ["z", "tuned-z", "m", "tuned-m", "a", "tuned-a"]
    await fleet.close()


class FakeLink:
    """Connects when told to."""

    def __init__(self) -> None:
        self.connected = False
        self.connected_at: float | None = None

    def connect(self) -> None:
        self.connected = True
        self.connected_at = time.monotonic()


def silent_fleet(link: FakeLink | None = None) -> Fleet:
    open_worker: Any = SilentWorker
    return Fleet(GatewaySettings(), open_worker, link)


def worker(model: str = "m", worker_id: str = "w", address: str = "1") -> WorkerFacts:
    facts = ModelFacts(model, adapters=(AdapterFacts("tuned"),))
    return WorkerFacts(worker_id, facts, epoch=1, version=1, address=address)


@pytest.fixture
async def starting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Fleet, FakeLink]]:
    """The fleet of a gateway that has just started, and its bus."""
    monkeypatch.setattr(model_memory, "SETTLE_SECONDS", 0.3)
    link = FakeLink()
    fleet = silent_fleet(link)
    yield fleet, link
    await fleet.close()


async def test_a_model_is_still_known_while_its_only_worker_restarts(starting: tuple[Fleet, FakeLink]) -> None:
    fleet, link = starting
    link.connect()
    fleet.observe(worker())
    fleet.depart("w", 1)
    assert fleet.models() == {}
    await asyncio.sleep(0.35)
    assert (await fleet.find("m")).model == "m"
    assert fleet.text_model("tuned").parent == "m"
    assert fleet.tokenizer_of("tuned") == "m"
    with pytest.raises(ModelNotFound, match="there are: m, tuned"):
        await fleet.find("other")


async def test_a_gateway_that_starts_waits_for_its_workers(starting: tuple[Fleet, FakeLink]) -> None:
    fleet, link = starting
    link.connect()
    asking = asyncio.create_task(fleet.find("m"))
    await asyncio.sleep(0.05)
    assert not asking.done()
    fleet.observe(worker())
    assert (await asyncio.wait_for(asking, 0.1)).model == "m"
    with pytest.raises(ModelNotFound):
        await asyncio.wait_for(fleet.find("other"), 2)


async def test_without_any_word_of_a_worker_no_model_is_said_not_to_exist(starting: tuple[Fleet, FakeLink]) -> None:
    fleet, link = starting
    for connect in (lambda: None, link.connect):
        connect()
        with pytest.raises(Unavailable) as refused:
            await asyncio.wait_for(fleet.find("m"), 2)
        assert refused.value.retry_after == 1


async def test_while_the_bus_is_away_nothing_is_forgotten(starting: tuple[Fleet, FakeLink]) -> None:
    fleet, link = starting
    link.connect()
    fleet.observe(worker())
    now = time.monotonic()
    fleet._memory._clock = lambda: now + 10_000
    fleet._workers.clear()
    link.connected = False
    assert (await fleet.find("m")).model == "m"
    with pytest.raises(Unavailable):
        await asyncio.wait_for(fleet.find("other"), 2)
    link.connect()
    assert fleet._memory.recall("m") is None


async def test_an_attached_worker_is_listed_however_long_the_bus_is_away(
    starting: tuple[Fleet, FakeLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = starting
    monkeypatch.setattr(fleet_module, "FORGET_SECONDS", 0.05)
    fleet.observe(worker())
    fleet.observe(worker("other", "v", "2"))
    await fleet.attachment_for(placement(1), time.monotonic(), 5)
    monkeypatch.setattr(fleet, "is_attached", lambda worker_id: worker_id == "w")
    await asyncio.sleep(0.1)
    assert sorted(fleet.models()) == ["m", "tuned"]
    fleet.observe(worker("third"))
    assert [each.worker_id for each in fleet.workers] == ["w"]


async def test_workers_of_before_are_met_again_without_the_bus(
    starting: tuple[Fleet, FakeLink], tmp_path: Path
) -> None:
    fleet, _ = starting

    class Answering:
        """Answers at one of two addresses."""

        def __init__(self, address: str) -> None:
            self._address = address

        async def get_status(self, timeout: float) -> WorkerStatus:
            if self._address != "1":
                raise Unavailable("nobody is there")
            return WorkerStatus(worker_id="w", epoch=1, version=1, address="1", model_info=ModelInfo(model="m"))

        async def close(self) -> None:
            closed.append(self._address)

    closed: list[str] = []
    open_worker: Any = Answering
    (tmp_path / "workers.json").write_text('{"v": "2", "w": "1"}')
    background = Background()
    KnownWorkers(fleet, open_worker, tmp_path / "workers.json").start(background, asyncio.sleep(0))
    assert (await fleet.find("m")).model == "m"
    await background.close()
    assert sorted(closed) == ["1", "2"]


async def test_what_a_request_looks_up_does_not_grow_with_the_fleet(
    starting: tuple[Fleet, FakeLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = starting
    looked_at: list[str] = []
    models = WorkerFacts.models

    def counted(given: WorkerFacts) -> dict[str, ModelFacts]:
        looked_at.append(given.worker_id)
        return models(given)

    for number in range(50):
        fleet.observe(worker("m", f"w{number}", str(number + 1)))
    monkeypatch.setattr(fleet_module, "LIST_SECONDS", 60.0)
    assert sorted(fleet.models()) == ["m", "tuned"]
    monkeypatch.setattr(WorkerFacts, "models", counted)
    for _ in range(10):
        await fleet.find("m")
        fleet.text_model("tuned")
        fleet.tokenizer_of("tuned")
    assert looked_at == []
    fleet.observe(worker("other", "new", "99"))
    assert "other" in fleet.models()
    fleet.depart("new", 1)
    assert "other" not in fleet.models()


async def test_a_model_is_as_near_as_its_nearest_worker() -> None:
    fleet = silent_fleet()
    for number, wait in enumerate((5.0, 2.0)):
        fleet.observe(WorkerFacts(str(number), ModelFacts("m"), "1", 1, 1, predicted_wait_seconds=wait))
    assert fleet.predicted_wait("m") == 2.0
    assert fleet.predicted_wait("another") == 0.0
    await fleet.close()


class DrainedWorker(SilentWorker):
    """Notes that it is to end."""

    patiences: ClassVar[list[float]] = []

    def __init__(self, address: str) -> None:
        super().__init__("1")

    async def drain(self, patience: float, timeout: float) -> WorkerStatus:
        assert timeout > 0
        self.patiences.append(patience)
        return WorkerStatus(open_request_count=3)


async def test_a_worker_is_drained_unless_its_model_has_no_other() -> None:
    open_worker: Any = DrainedWorker
    fleet = Fleet(GatewaySettings(), open_worker)
    DrainedWorker.patiences.clear()

    async def meet(known: WorkerFacts) -> None:
        fleet.observe(known)
        await fleet.attachment_for(Place(worker_id=known.worker_id, worker_epoch=1), time.monotonic(), 5)

    await meet(worker(address="host:1/m"))
    await meet(worker("other", "v", "host:2"))
    with pytest.raises(NotFound, match="it reaches: v, w"):
        await fleet.drain("x", 0, force=True)
    with pytest.raises(InvalidRequest, match="w is the last worker of m"):
        await fleet.drain("w", 0, force=False)
    assert await fleet.drain("w", 1.5, force=True) == 3
    await meet(worker(worker_id="of the same process", address="host:1/n"))
    with pytest.raises(InvalidRequest):
        await fleet.drain("w", 0, force=False)
    await meet(worker(worker_id="u", address="host:3"))
    assert await fleet.drain("w", 0, force=False) == 3
    fleet.observe(replace(worker(worker_id="u", address="host:3"), version=2, draining=True))
    with pytest.raises(InvalidRequest):
        await fleet.drain("w", 0, force=False)
    assert DrainedWorker.patiences == [1.5, 0]
    await fleet.close()
