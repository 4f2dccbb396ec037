"""A frozen worker is told from a gateway that stood still itself."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from headrace.gateway.fleet import attachment as attachment_module
from headrace.gateway.fleet.attachment import Attachment
from headrace.gateway.fleet.inboxes.inboxes import Inboxes
from headrace.v1.worker_pb2 import AttachRequest, AttachResponse, Frame, WorkerHello

pytestmark = pytest.mark.anyio
SILENCE = 0.3


class Worker:
    """Says hello and then, as long as it is not frozen, how many steps it has done."""

    def __init__(self) -> None:
        self.frozen = False
        self.heard = asyncio.Event()
        self.commands: AsyncIterator[AttachRequest] | None = None

    async def attach(self, commands: AsyncIterator[AttachRequest]) -> AsyncIterator[AttachResponse]:
        self.commands = commands
        yield AttachResponse(hello=WorkerHello(worker_id="w", epoch=1))
        step = 0
        while True:
            await asyncio.sleep(0.05)
            if not self.frozen:
                step += 1
                yield AttachResponse(frame=Frame(step=step))
                self.heard.set()


async def attached(worker: Worker, inboxes: Inboxes) -> tuple[Attachment, "asyncio.Task[None]"]:
    attachment = Attachment("w", worker, "gateway", inboxes, SILENCE, SILENCE)  # type: ignore[arg-type]
    running = asyncio.create_task(attachment.run(lambda _: None))
    assert await attachment.wait_until_greeted(5)
    return attachment, running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment_module, "WATCH_INTERVAL", 0.1)


@pytest.mark.slow
async def test_a_stall_of_the_gateway_moves_no_request() -> None:
    worker, inboxes = Worker(), Inboxes()
    inbox = inboxes.open("r", 1)
    inboxes.assign(inbox, "w")
    attachment, running = await attached(worker, inboxes)
    try:
        for _ in range(3):
            await asyncio.wait_for(worker.heard.wait(), 5)
            worker.heard.clear()
            time.sleep(4 * SILENCE)  # noqa: ASYNC251 - the stall that is tested
            await asyncio.wait_for(worker.heard.wait(), 5)
            worker.heard.clear()
            assert attachment.alive
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_worker_that_freezes_is_still_noticed() -> None:
    worker, inboxes = Worker(), Inboxes()
    attachment, running = await attached(worker, inboxes)
    worker.frozen = True
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert not attachment.alive


async def test_a_worker_is_asked_after_a_request_of_which_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment_module, "INQUIRY_SECONDS", 0.2)
    worker, inboxes = Worker(), Inboxes()
    _attachment, running = await attached(worker, inboxes)
    try:
        for name in ("here", "elsewhere", "placed nowhere yet"):
            inbox = inboxes.open(name, 3)
            if (worker_id := {"here": "w", "elsewhere": "v"}.get(name)) is not None:
                inboxes.assign(inbox, worker_id)
        assert worker.commands is not None
        asked = [await asyncio.wait_for(anext(worker.commands), 5) for _ in range(3)][1:]
        for command in asked:
            assert [(each.request_id, each.attempt) for each in command.inquiry.requests] == [("here", 3)]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
