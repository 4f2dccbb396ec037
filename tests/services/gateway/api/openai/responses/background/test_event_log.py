"""Events of a response are read by many, from anywhere, while it is written and afterwards."""

import asyncio

import pytest

from headrace.gateway.api.openai.responses.background.event_log import EventLog

pytestmark = pytest.mark.anyio
MOMENT = 5.0


async def read(log: EventLog, number: int) -> list[bytes]:
    return [event async for event in log.after(number)]


async def test_readers_follow_while_it_grows_and_end_when_it_is_closed() -> None:
    log = EventLog()
    log.append(b"0")
    async with asyncio.timeout(MOMENT), asyncio.TaskGroup() as group:
        readers = [group.create_task(read(log, number)) for number in (-1, 0, 1)]
        await asyncio.sleep(0)
        for event in (b"1", b"2"):
            log.append(event)
            await asyncio.sleep(0)
        log.close()
    assert [reader.result() for reader in readers] == [[b"0", b"1", b"2"], [b"1", b"2"], [b"2"]]


async def test_a_closed_log_is_read_at_once() -> None:
    log = EventLog()
    log.append(b"0")
    log.close()
    async with asyncio.timeout(MOMENT):
        assert (await read(log, -1), await read(log, 99)) == ([b"0"], [])
