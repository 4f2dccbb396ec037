"""Requests of limited keys are placed while their reservation is written, and none is answered without it."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from headrace.access.key_record import KeyRecord
from headrace.bus.bus import LEASES, Store
from headrace.bus.memory_bus import MemoryBus
from headrace.errors import Overloaded, RateLimited
from headrace.gateway.access.account import Account
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.limits.shared_budgets import SharedBudgets
from headrace.gateway.delivery.accounted import accounted
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.resumption.charge import Charge
from headrace.gateway.timing.request_record import RequestRecord

pytestmark = pytest.mark.anyio
KEY = KeyRecord.model_validate(
    {
        "id": "abcdefgh",
        "name": "n",
        "tenant": "t",
        "digest": "0" * 64,
        "created": 0,
        "limits": {"tokens_per_day": 100},
    }
)


class SlowBus(MemoryBus):
    """Writes nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        await self.may_write.wait()
        return await super().swap(key, message, revision, store)


class Placed:
    """Pieces of a request, and whether they were asked for and closed."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.started = asyncio.Event()
        self.is_closed = False

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        self.started.set()
        try:
            if self.failure is not None:
                raise self.failure
            yield Piece(text="a", token_ids=[1])
            yield Piece(text="b", token_ids=[2])
        finally:
            self.is_closed = True


def answer(placed: Placed, limiter: Limiter, max_tokens: int) -> AsyncGenerator[Piece, None]:
    job = SimpleNamespace(
        envelope=SimpleNamespace(account=Account(KEY, None, limiter), record=RequestRecord()),
        options=SimpleNamespace(choice_count=1),
        prompts=[[1, 2, 3]],
    )
    sequence = SimpleNamespace(sampling=SimpleNamespace(max_token_count=max_tokens))
    return accounted(cast("Any", job), [cast("Any", sequence)], placed.pieces())


async def text_of(pieces: AsyncGenerator[Piece, None]) -> str:
    return "".join([piece.text async for piece in pieces])


async def test_it_is_placed_while_the_reservation_is_written_and_shown_afterwards() -> None:
    bus, placed = SlowBus(), Placed()
    reading = asyncio.create_task(text_of(answer(placed, Limiter(SharedBudgets(bus), "one"), 10)))
    await asyncio.wait_for(placed.started.wait(), 5)
    assert not reading.done()
    bus.may_write.set()
    assert await asyncio.wait_for(reading, 5) == "ab"


async def test_a_refusal_that_nobody_foresaw_ends_it() -> None:
    bus = MemoryBus()
    await Limiter(SharedBudgets(bus), "one").reserve(KEY, 95)
    placed, other = Placed(), Limiter(SharedBudgets(bus), "two")
    with pytest.raises(RateLimited):
        await text_of(answer(placed, other, 10))
    assert placed.is_closed


async def test_one_that_does_not_fit_as_far_as_is_known_is_not_placed() -> None:
    limiter, placed = Limiter(SharedBudgets(MemoryBus()), "one"), Placed()
    await limiter.reserve(KEY, 95)
    with pytest.raises(RateLimited):
        await text_of(answer(placed, limiter, 10))
    assert not placed.started.is_set()


async def test_a_request_that_cannot_be_placed_spends_nothing() -> None:
    bus = SlowBus()
    limiter = Limiter(SharedBudgets(bus), "one")
    with pytest.raises(Overloaded):
        await asyncio.wait_for(text_of(answer(Placed(Overloaded("full")), limiter, 90)), 5)
    bus.may_write.set()
    await limiter.reserve(KEY, 100)


@pytest.mark.parametrize(("paid", "expected"), [((0, 0), (3, 2)), ((3, 1), (0, 1)), ((3, 9), (0, 0)), ((0, 1), (3, 1))])
async def test_what_an_earlier_request_has_paid_is_not_paid_again(
    paid: tuple[int, int], expected: tuple[int, int]
) -> None:
    account = Account()
    envelope = SimpleNamespace(account=account, record=RequestRecord())
    job = SimpleNamespace(envelope=envelope, prompts=[[1, 2, 3]], options=SimpleNamespace(choice_count=1))
    pieces = accounted(cast("Any", job), [], Placed().pieces(), Charge(*paid))
    assert "".join([piece.text async for piece in pieces]) == "ab"
    assert account.bill(None) == expected
