"""An announcement ends when it is withdrawn, whatever it is at."""

import asyncio
import contextlib

import pytest
from google.protobuf.message import Message

from headrace.bus.memory_bus import MemoryBus
from headrace.lifecycle.announcer import Announcer
from headrace.lifecycle.background import Background
from headrace.v1.events_pb2 import ServiceRegistered

pytestmark = pytest.mark.anyio


class DeafBus(MemoryBus):
    """A bus whose first write takes no notice of a cancellation, as NATS' client does at times."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing = asyncio.Event()

    async def put(self, key: str, message: Message) -> None:
        self.is_writing.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await super().put(key, message)


async def test_a_swallowed_cancellation_delays_no_stop() -> None:
    bus, background = DeafBus(), Background()
    announcer = Announcer(bus, ServiceRegistered(service_id="c", kind="cache"))
    announcer.start(background)
    async with asyncio.timeout(10):
        await bus.is_writing.wait()
        await announcer.withdraw()
    assert await bus.entries(ServiceRegistered) == []
