"""Batches end however their gateway does: given up, taken over, and each request answered once."""

import asyncio
import contextlib
import errno
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.memory_bus import MemoryBus
from headrace.gateway.access.gate import OPEN_GATE
from headrace.gateway.batches import batch_leases, batch_run, batch_runner
from headrace.gateway.batches.batch_leases import BatchLeases
from headrace.gateway.batches.batch_runner import BatchRunner
from headrace.gateway.batches.lines.line_call import LineCall
from headrace.gateway.batches.lines.line_caller import LineCaller
from headrace.gateway.batches.lines.line_endpoint import LineEndpoint
from headrace.gateway.batches.lines.result_log import ResultLog, read_results
from headrace.gateway.batches.storage.batch_record import BatchRecord
from headrace.gateway.batches.storage.shared_folder import SharedFolder, open_folder
from headrace.gateway.batches.storage.timed_id import BATCH, new_id
from headrace.gateway.config import GatewaySettings
from headrace.gateway.timing.recent_requests import RecentRequests

pytestmark = pytest.mark.anyio
PATIENCE = 20.0
PATH = "/v1/completions"


class Answers:
    """Holds each request until a permit is given, then sends the configured answer."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.allowed = asyncio.Semaphore(0)
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.limited = ""
        """Tenant whose requests are told to wait for a quarter of a minute."""
        self.hides_cancellation = False
        """Whether a request that is cancelled is answered all the same, as one that has just ended."""

    async def answer(self, call: LineCall, content: bytes) -> None:
        assert call.header("x-headrace-class") == "batch"
        body = json.loads(content)
        try:
            await self.allowed.acquire()
        except asyncio.CancelledError:
            if not self.hides_cancellation:
                raise
        self.asked[body["name"]] += 1
        status, told = self.answers.pop(0) if self.answers else (200, {})
        if body["tenant"] == self.limited:
            status, told = 429, {"retry-after-ms": "15000"}
        call.headers |= told
        await call.send_json(status, {})

    def caller(self, settings: GatewaySettings) -> LineCaller:
        endpoints = {PATH: LineEndpoint(self.answer, frozenset())}
        return LineCaller(endpoints, OPEN_GATE, RecentRequests(), settings)


class Gateways:
    """Gateways that share a folder and a bus."""

    def __init__(self, tmp_path: Path) -> None:
        self.settings = GatewaySettings(files_folder=tmp_path / "files", batch_concurrency=2)
        opened = open_folder(self.settings)
        assert opened is not None
        self.folder: SharedFolder = opened
        self.bus = MemoryBus()
        self.app = Answers()
        self._content = tmp_path / "input"
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, bus: MemoryBus | None = None) -> BatchRunner:
        caller = self.app.caller(self.settings)
        runner = BatchRunner(self.folder, BatchLeases(bus or self.bus, name), caller, self.settings)
        self._tasks.append(asyncio.create_task(runner.watch()))
        return runner

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def create(self, count: int, seconds: int = 60, tenant: str = "public") -> BatchRecord:
        names = [f"r{number}" for number in range(count)]
        lines = [
            {
                "custom_id": name,
                "method": "POST",
                "url": PATH,
                "body": {"model": "m", "name": name, "tenant": tenant},
            }
            for name in names
        ]
        self._content.unlink(missing_ok=True)  # an earlier batch may have it still
        self._content.write_text("\n".join(map(json.dumps, lines)))
        now = int(time.time())
        record = BatchRecord(
            id=new_id(BATCH),
            tenant=tenant,
            key=None,
            endpoint=PATH,
            input_file_id="file-x",
            completion_window="24h",
            created=now,
            expires=now + seconds,
        )
        self.folder.batches.create(record, self._content)
        return record

    def found(self, record: BatchRecord) -> BatchRecord:
        return self.folder.batches.get(record.tenant, record.id)

    def answered(self, record: BatchRecord) -> list[str]:
        return [result.custom_id for result in read_results(self.folder.batches.folder(record.tenant, record.id))]

    def output(self, record: BatchRecord) -> list[str]:
        file_id = self.found(record).output_file_id
        assert file_id is not None
        content = self.folder.files.content_path(record.tenant, file_id).read_text()
        return [json.loads(line)["custom_id"] for line in content.splitlines()]

    def allow(self, count: int) -> None:
        for _ in range(count):
            self.app.allowed.release()


@pytest.fixture
async def gateways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateways]:
    monkeypatch.setattr(batch_leases, "EXPIRY_SECONDS", 0.4)
    monkeypatch.setattr(batch_runner, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(batch_run, "LOOK_SECONDS", 0.05)
    made = Gateways(tmp_path)
    yield made
    await made.close()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is another task's doing
            await asyncio.sleep(0.01)


async def test_a_cancelled_batch_ends_though_its_requests_hide_it(gateways: Gateways) -> None:
    """It sends no further request, though each ends as it is cancelled."""
    gateways.app.hides_cancellation = True
    record = gateways.create(50)
    gateways.start("a")
    await until(lambda: gateways.found(record).total_count == 50)
    gateways.allow(1)
    await until(lambda: gateways.answered(record))
    gateways.folder.batches.cancel(record.tenant, record.id)
    await until(lambda: gateways.found(record).status == "cancelled")
    assert len(gateways.answered(record)) <= 3


async def test_who_stops_gives_its_batches_to_another_at_once(gateways: Gateways) -> None:
    record = gateways.create(6)
    first = gateways.start("one")
    gateways.allow(3)
    await until(lambda: len(gateways.answered(record)) == 3)
    await first.close()
    gateways.start("other")
    gateways.allow(6)
    await until(lambda: gateways.found(record).status == "completed")
    assert sorted(gateways.output(record)) == [f"r{number}" for number in range(6)]
    assert set(gateways.app.asked.values()) == {1}
    assert gateways.found(record).completed_count == 6


async def test_who_lost_its_batch_without_knowing_it_changes_nothing(gateways: Gateways) -> None:
    """A gateway that no longer reaches NATS answers on; another answers the same requests and ends the batch."""
    record = gateways.create(4)
    cut = MemoryBus()
    cut._swapped, cut._revision = gateways.bus._swapped, 100
    gateways.start("one", cut)
    gateways.allow(1)
    await until(lambda: len(gateways.answered(record)) == 1)
    cut.disconnect()
    gateways.start("other")
    await until(lambda: gateways.found(record).fence > 1 or gateways.folder.batches.open_batches() == [])
    gateways.allow(20)
    await until(lambda: gateways.found(record).status == "completed")
    assert sorted(gateways.output(record)) == [f"r{number}" for number in range(4)]


async def test_limits_and_absence_are_waited_for_and_faults_are_told(gateways: Gateways) -> None:
    gateways.app.answers = [(429, {"retry-after-ms": "10"}), (503, {"retry-after-ms": "10"}), (400, {})]
    record = gateways.create(2)
    gateways.allow(20)
    gateways.start("one")
    await until(lambda: gateways.found(record).status == "completed")
    done = gateways.found(record)
    assert (done.completed_count, done.failed_count) == (1, 1)
    assert sum(gateways.app.asked.values()) == 4


async def test_a_batch_that_takes_too_long_expires(gateways: Gateways) -> None:
    record = gateways.create(3, seconds=1)
    gateways.allow(1)
    gateways.start("one")
    await until(lambda: gateways.found(record).status == "expired")
    assert len(gateways.output(record)) == 1


async def test_a_record_that_cannot_be_read_harms_no_other(gateways: Gateways) -> None:
    broken, record = gateways.create(1), gateways.create(1)
    (gateways.folder.batches.folder(broken.tenant, broken.id) / "record.json").write_text("{")
    gateways.allow(9)
    gateways.start("one")
    await until(lambda: gateways.found(record).status == "completed")


async def test_without_a_folder_nothing_is_run(gateways: Gateways) -> None:
    caller = gateways.app.caller(gateways.settings)
    runner = BatchRunner(None, BatchLeases(gateways.bus, "one"), caller, gateways.settings)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await runner.watch()
            return
    raise AssertionError("it watches a folder that is not there")


async def test_batches_that_wait_for_a_limit_hold_up_no_other(gateways: Gateways) -> None:
    """One key is rate limited, and has more batches than may run at once."""
    waiting = [gateways.create(3, tenant="limited") for _ in range(33)]
    gateways.app.limited = "limited"
    gateways.allow(10_000)
    gateways.start("one")
    await until(lambda: any(gateways.found(record).total_count for record in waiting))
    record = gateways.create(1)
    began = time.monotonic()
    await until(lambda: gateways.found(record).status == "completed")
    assert time.monotonic() - began < 5
    assert {str(gateways.found(each).status) for each in waiting} <= {"validating", "in_progress"}
    gateways.app.limited = ""


async def test_a_batch_that_only_waits_is_given_up_and_goes_on_later(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_run, "GIVE_UP_SECONDS", 0.1)
    gateways.app.answers = [(429, {"retry-after-ms": "700"})]
    record = gateways.create(2)
    gateways.allow(20)
    runner = gateways.start("one")
    await until(lambda: gateways.app.asked and not runner._running)
    assert gateways.found(record).status == "in_progress"
    await until(lambda: gateways.found(record).status == "completed")
    assert sorted(gateways.output(record)) == ["r0", "r1"]


async def test_a_batch_that_waits_is_cancelled_at_once(gateways: Gateways) -> None:
    gateways.app.limited = "public"
    record = gateways.create(2)
    gateways.allow(20)
    runner = gateways.start("one")
    await until(lambda: gateways.app.asked and not runner._running)
    gateways.folder.batches.cancel(record.tenant, record.id)
    began = time.monotonic()
    await until(lambda: gateways.found(record).status == "cancelled")
    assert time.monotonic() - began < 5


async def test_a_batch_that_finds_a_full_disk_goes_on_once_there_is_room(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for two of its starts. Each line that was torn is answered again."""
    write, failed = ResultLog._write, Counter[str]()

    def write_while_there_is_room(log: ResultLog, lines: Iterable[bytes]) -> None:
        if sum(failed.values()) == 2:
            write(log, lines)
            return
        first = next(iter(lines))
        failed[json.loads(first)["custom_id"]] += 1
        log._file.write(first[: len(first) // 2])
        log._file.flush()
        log._failure = OSError(errno.ENOSPC, "No space left on device")
        raise log._failure

    monkeypatch.setattr(ResultLog, "_write", write_while_there_is_room)
    monkeypatch.setattr(batch_runner, "PAUSE_SECONDS", 0.05)
    record = gateways.create(5)
    gateways.allow(20)
    gateways.start("one")
    await until(lambda: gateways.found(record).status == "completed")
    assert sum(failed.values()) == 2
    assert gateways.found(record).fence > 2
    assert sorted(gateways.output(record)) == [f"r{number}" for number in range(5)]
    assert gateways.found(record).completed_count == 5
