"""A block of work lasts no longer than its client stays, or than the request may take."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, Overloaded, RequestCancelled
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http import exchange as exchange_module
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import HttpExchange

pytestmark = pytest.mark.anyio


class Client:
    """Reads what is sent, and leaves when told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.read: list[bytes] = []
        scope: dict[str, Any] = {"type": "http", "path": "/", "headers": []}
        self.exchange = HttpExchange(scope, self._receive, self._send, GatewaySettings(), UploadBudget(1))

    async def _receive(self) -> MutableMapping[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.read.append(message.get("body", b""))


@pytest.fixture
async def client() -> Client:
    return Client()


async def within(client: Client, work: Callable[[], Awaitable[None]], seconds: float = 5.0) -> None:
    """Runs `work` for no longer than the client stays. No task may be left over."""
    before = asyncio.all_tasks()
    try:
        async with client.exchange.limit(Deadline.after(seconds)):
            await work()
    finally:
        assert asyncio.all_tasks() == before


async def stand_still() -> None:
    await asyncio.Event().wait()


async def test_work_goes_on_while_the_client_stays(client: Client) -> None:
    await within(client, lambda: asyncio.sleep(0.01))


async def test_a_client_that_leaves_ends_the_work(client: Client) -> None:
    client.gone.set()
    with pytest.raises(RequestCancelled):
        await within(client, stand_still)


async def test_work_that_fails_as_it_is_cancelled_ends_as_cancelled(client: Client) -> None:
    async def fail_late() -> None:
        try:
            await stand_still()
        finally:
            raise Overloaded("nobody is left to be told")

    client.gone.set()
    with pytest.raises(RequestCancelled):
        await within(client, fail_late)


async def test_work_that_is_done_when_the_client_leaves_is_done(client: Client) -> None:
    async def leave() -> None:
        client.gone.set()

    await within(client, leave)


async def test_work_that_overlooks_its_deadline_is_ended(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "PARTING_SECONDS", 0.01)
    with pytest.raises(DeadlineExceeded) as failure:
        await within(client, stand_still, 0.01)
    assert failure.value.stage == "deliver"


@pytest.mark.parametrize("error", [TimeoutError(), Overloaded("full")])
async def test_a_failure_of_the_work_is_left_as_it_is(client: Client, error: Exception) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await within(client, fail)


async def test_a_task_that_is_cancelled_from_outside_stays_cancelled(client: Client) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with client.exchange.limit(Deadline.after(5)):
            entered.set()
            await stand_still()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def fail_after(client: Client, *events: bytes) -> None:
    async with event_stream(client.exchange, 5):
        for event in events:
            await client.exchange.send_event(event)
        raise Overloaded("full")


async def test_a_failure_before_the_first_event_is_not_written(client: Client) -> None:
    with pytest.raises(Overloaded):
        await fail_after(client)
    assert client.read == []


async def test_a_failure_after_the_first_event_is_the_last_one(client: Client) -> None:
    with pytest.raises(Overloaded):
        await fail_after(client, b"data: 1\n\n")
    assert client.read[-2] == b"data: 1\n\n"
    assert b'"message":"full"' in client.read[-1]


async def test_a_stream_that_stands_still_is_kept_alive(client: Client) -> None:
    async with event_stream(client.exchange, 0.01):
        async with asyncio.timeout(5):
            while b": ping\n\n" not in client.read:  # noqa: ASYNC110 - it is another task's doing
                await asyncio.sleep(0.001)
