"""A vocabulary is fetched once, another one under the same name is noticed, and nobody waits beyond their deadline."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.errors import DeadlineExceeded, HeadraceError, ModelNotFound, Unavailable
from headrace.gateway.text import vocabularies as module
from headrace.gateway.text.vocabularies import FRESH_SECONDS, RETRY_SECONDS, STALE_SECONDS, Vocabularies
from headrace.v1.tokenizer_pb2 import GetVocabularyResponse

pytestmark = pytest.mark.anyio
OLD_SECONDS = FRESH_SECONDS + STALE_SECONDS
"""After so long a request waits for the tokenizer."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeTokenizer:
    """Answers once it is let go, with the piece that each model has."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.pieces: dict[str, bytes] = {}
        self.failure: HeadraceError | None = None
        self.calls = 0
        self.sent = 0

    async def get_vocabulary(self, model: str, timeout: float, known: Sequence[bytes] = ()) -> GetVocabularyResponse:
        self.calls += 1
        await self.free.wait()
        if self.failure is not None:
            raise self.failure
        piece = self.pieces.get(model, b"a")
        if piece in known:
            return GetVocabularyResponse(fingerprint=piece)
        self.sent += 1
        return GetVocabularyResponse(pieces=[piece], fingerprint=piece)


class Gateway:
    def __init__(self) -> None:
        self.clock = Clock()
        self.tokenizer = FakeTokenizer()
        self.tokenizer.free.set()
        asked: Any = self.tokenizer
        self.vocabularies = Vocabularies(asked, self.clock)

    async def piece(self, model: str = "m", timeout: float = 10) -> bytes:
        return (await self.vocabularies.get(model, timeout)).piece(0)


async def test_a_short_deadline_does_not_wait_for_a_longer_one() -> None:
    gateway = Gateway()
    gateway.tokenizer.free.clear()
    patient = asyncio.create_task(gateway.piece())
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded) as failure:
        await asyncio.wait_for(gateway.piece(timeout=0.05), 2)
    assert failure.value.stage == "tokenize"
    gateway.tokenizer.free.set()
    assert await patient == b"a"
    assert gateway.tokenizer.calls == 1


async def test_one_model_that_is_slow_to_come_does_not_hold_up_another() -> None:
    gateway = Gateway()
    await gateway.piece("known")
    gateway.tokenizer.free.clear()
    slow = asyncio.create_task(gateway.piece("slow"))
    await asyncio.sleep(0)
    assert await asyncio.wait_for(gateway.piece("known"), 2) == b"a"
    gateway.tokenizer.free.set()
    await slow


async def test_many_requests_ask_once_while_the_answer_is_fresh() -> None:
    gateway = Gateway()
    assert await asyncio.gather(*(gateway.piece() for _ in range(50))) == [b"a"] * 50
    assert gateway.tokenizer.calls == 1


async def test_another_vocabulary_under_the_same_name_is_noticed() -> None:
    gateway = Gateway()
    before = await gateway.vocabularies.get("m", 10)
    gateway.tokenizer.pieces["m"] = b"b"
    gateway.clock.now += OLD_SECONDS
    assert await asyncio.gather(*(gateway.piece() for _ in range(5))) == [b"b"] * 5
    # Whoever began with the old one goes on with it.
    assert before.piece(0) == b"a"
    assert gateway.tokenizer.calls == 2


async def test_a_vocabulary_that_did_not_change_is_not_sent_again_under_any_name() -> None:
    gateway = Gateway()
    for _ in range(5):
        assert await gateway.piece("m") == b"a"
        assert await gateway.piece("twin") == b"a"
        gateway.clock.now += OLD_SECONDS
    assert (gateway.tokenizer.calls, gateway.tokenizer.sent, len(gateway.vocabularies)) == (10, 1, 1)


async def test_a_tokenizer_that_is_away_leaves_what_is_known_and_is_not_asked_all_the_time() -> None:
    gateway = Gateway()
    await gateway.piece()
    gateway.clock.now += OLD_SECONDS
    gateway.tokenizer.failure = Unavailable("no tokenizer answers")
    for _ in range(10):
        assert await gateway.piece() == b"a"
    assert gateway.tokenizer.calls == 2
    with pytest.raises(Unavailable):
        await gateway.piece("unknown")
    gateway.tokenizer.failure, gateway.tokenizer.pieces["m"] = None, b"b"
    gateway.clock.now += RETRY_SECONDS + STALE_SECONDS
    assert await gateway.piece() == b"b"


async def test_a_tokenizer_that_hangs_costs_little_where_the_vocabulary_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REFRESH_TIMEOUT", 0.02)
    gateway = Gateway()
    await gateway.piece()
    gateway.clock.now += OLD_SECONDS
    gateway.tokenizer.free.clear()
    async with asyncio.timeout(5):
        assert await gateway.piece(timeout=60) == b"a"


async def test_a_model_that_is_gone_is_said_to_be_gone() -> None:
    gateway = Gateway()
    await gateway.piece()
    gateway.clock.now += OLD_SECONDS
    gateway.tokenizer.failure = ModelNotFound("model 'm' does not exist")
    with pytest.raises(ModelNotFound):
        await gateway.piece()


async def test_the_most_recently_used_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VOCABULARIES", 2)
    monkeypatch.setattr(module, "MAX_MODELS", 3)
    gateway = Gateway()
    for number in range(5):
        gateway.tokenizer.pieces[str(number)] = bytes([number])
        assert await gateway.piece(str(number)) == bytes([number])
        assert len(gateway.vocabularies) <= 2
    assert len(gateway.vocabularies._models) == 3
    sent = gateway.tokenizer.sent
    assert [await gateway.piece("3"), await gateway.piece("4")] == [b"\x03", b"\x04"]
    assert gateway.tokenizer.sent == sent
    assert await gateway.piece("2") == b"\x02"
    assert gateway.tokenizer.sent == sent + 1


async def test_a_vocabulary_that_is_dropped_while_the_tokenizer_answers_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_VOCABULARIES", 1)
    gateway = Gateway()
    gateway.tokenizer.pieces["other"] = b"b"
    await gateway.piece("m")
    gateway.clock.now += OLD_SECONDS
    assert await asyncio.gather(gateway.piece("other"), gateway.piece("m")) == [b"b", b"a"]
    assert len(gateway.vocabularies) == 1


async def test_while_a_vocabulary_is_asked_for_again_no_request_waits() -> None:
    gateway = Gateway()
    await gateway.piece()
    gateway.tokenizer.pieces["m"] = b"b"
    gateway.tokenizer.free.clear()
    gateway.clock.now += FRESH_SECONDS
    assert [await gateway.piece() for _ in range(5)] == [b"a"] * 5
    await asyncio.sleep(0)
    assert gateway.tokenizer.calls == 2
    gateway.tokenizer.free.set()
    async with asyncio.timeout(5):
        while await gateway.piece() != b"b":  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert gateway.tokenizer.calls == 2


async def test_a_model_that_is_found_to_be_gone_is_gone_for_the_next_request() -> None:
    gateway = Gateway()
    await gateway.piece()
    gateway.clock.now += FRESH_SECONDS
    gateway.tokenizer.failure = ModelNotFound("model 'm' does not exist")
    assert await gateway.piece() == b"a"
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(ModelNotFound):
        await gateway.piece()
