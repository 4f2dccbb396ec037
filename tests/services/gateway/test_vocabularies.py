"""A vocabulary is fetched once, and nobody waits for it beyond their own deadline."""

import asyncio
from typing import Any

import pytest

from headrace.errors import DeadlineExceeded
from headrace.gateway.vocabularies import Vocabularies
from headrace.v1.tokenizer_pb2 import GetVocabularyResponse

pytestmark = pytest.mark.anyio


class FakeTokenizer:
    """Answers once it is let go."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.calls = 0

    async def get_vocabulary(self, model: str, timeout: float) -> GetVocabularyResponse:
        self.calls += 1
        await self.free.wait()
        return GetVocabularyResponse(pieces=[b"a"])


async def test_a_short_deadline_does_not_wait_for_a_longer_one() -> None:
    tokenizer: Any = FakeTokenizer()
    vocabularies = Vocabularies(tokenizer)
    patient = asyncio.create_task(vocabularies.get("m", 10))
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded) as failure:
        await asyncio.wait_for(vocabularies.get("m", 0.05), 2)
    assert failure.value.stage == "tokenize"
    tokenizer.free.set()
    assert (await patient).piece(0) == b"a"
    assert tokenizer.calls == 1
