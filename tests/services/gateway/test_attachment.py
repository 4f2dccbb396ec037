"""A frozen worker is told from a gateway that stood still itself."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from headrace.gateway import attachment as attachment_module
from headrace.gateway.attachment import Attachment, Inboxes
from headrace.v1.worker_pb2 import AttachRequest, AttachResponse, Frame, WorkerHello

pytestmark = pytest.mark.anyio
SILENCE = 0.3


class Worker:
    """Says hello and then, as long as it is not frozen, how many steps it has done."""

    def __init__(self) -> None:
        self.frozen = False
        self.heard = asyncio.Event()

    async def attach(self, commands: AsyncIterator[AttachRequest]) -> AsyncIterator[AttachResponse]:
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


async def test_a_stall_of_the_gateway_moves_no_request() -> None:
    worker, inboxes = Worker(), Inboxes()
    inbox = inboxes.open("r", 1)
    inbox.worker_id = "w"
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
