"""/tokenize and /detokenize count, end in time, end with their client, and have limits."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.services.gateway.served_bridge import FakePipeline, body_of, outcomes, serving, until

from headrace.domain.deadline import Deadline
from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import TextToEncode, ToEncode

pytestmark = pytest.mark.anyio


class SlowTokenizer(FakePipeline):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.encoder = self
        self.answers = asyncio.Event()
        self.limits: list[int | None] = []
        self.cancelled_count = 0

    async def _wait(self) -> None:
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.cancelled_count += 1
            raise

    async def encode(self, wanted: ToEncode, deadline: Deadline) -> Encoded:
        self.limits.append(wanted.context_token_count)
        await self._wait()
        return Encoded([1, 2] if isinstance(wanted, TextToEncode) else [1, 2, 3])

    async def decode(self, model: str, token_ids: Sequence[int], deadline: Deadline) -> str:
        await self._wait()
        return "text"


MESSAGES = [{"role": "user", "content": "hi"}]
ASKED = [
    ("/tokenize", {"prompt": "a"}),
    ("/tokenize", {"prompt": None, "messages": MESSAGES}),
    ("/detokenize", {"tokens": [1, 2]}),
]


@pytest.mark.parametrize(("path", "fields"), ASKED)
async def test_it_is_open_until_it_is_answered(path: str, fields: dict[str, Any]) -> None:
    pipeline = SlowTokenizer()
    async with serving(pipeline=pipeline) as gateway:
        before = outcomes("finished", "m")
        asked = asyncio.create_task(gateway.post(body_of(**fields), path))
        await until(lambda: len(gateway.ledger) == 1)
        pipeline.answers.set()
        status, content = await asked
        assert status == 200
        assert content.get("count") in (2, 3, None)
        await until(lambda: len(gateway.ledger) == 0)
        assert outcomes("finished", "m") == before + 1
        assert pipeline.limits in ([64], [])


@pytest.mark.slow
@pytest.mark.parametrize(("path", "fields"), ASKED)
async def test_it_ends_at_its_deadline(path: str, fields: dict[str, Any]) -> None:
    async with serving(pipeline=SlowTokenizer()) as gateway:
        status, error = await gateway.post(body_of(**fields), path, "x-headrace-timeout-ms: 200\r\n")
        assert (status, error["code"]) == (504, "deadline_exceeded")
        assert len(gateway.ledger) == 0


@pytest.mark.parametrize(("path", "fields"), ASKED)
async def test_it_ends_when_its_client_leaves(path: str, fields: dict[str, Any]) -> None:
    pipeline = SlowTokenizer()
    async with serving(pipeline=pipeline) as gateway:
        body = body_of(**fields)
        _, writer = await gateway.connect()
        writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: len(gateway.ledger) == 1)
        writer.close()
        await until(lambda: len(gateway.ledger) == 0)
        await until(lambda: pipeline.cancelled_count == 1)


@pytest.mark.parametrize(("path", "fields"), ASKED)
async def test_it_is_refused_where_too_many_are_open(path: str, fields: dict[str, Any]) -> None:
    pipeline = SlowTokenizer()
    async with serving(pipeline=pipeline, max_open_requests=1) as gateway:
        first = asyncio.create_task(gateway.post(body_of(**fields), path))
        await until(lambda: len(gateway.ledger) == 1)
        status, error = await gateway.post(body_of(**fields), path)
        assert (status, error["code"]) == (503, "overloaded")
        pipeline.answers.set()
        assert (await first)[0] == 200


async def test_more_ids_than_the_context_has_are_refused() -> None:
    pipeline = SlowTokenizer()
    pipeline.answers.set()
    async with serving(pipeline=pipeline) as gateway:
        assert (await gateway.post(body_of(tokens=[1] * 64), "/detokenize"))[0] == 200
        status, error = await gateway.post(body_of(tokens=[1] * 65), "/detokenize")
        assert (status, error["param"]) == (400, "tokens")
        assert "context is 64" in error["message"]


async def test_a_field_that_nobody_knows_is_named() -> None:
    pipeline = SlowTokenizer()
    pipeline.answers.set()
    async with serving(pipeline=pipeline) as gateway:
        body = json.dumps({"model": "m", "tokens": [1], "odd": 1}).encode()
        reader, writer = await gateway.connect()
        head = f"POST /detokenize HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        response = await reader.readuntil(b"\r\n\r\n")
        assert b"x-headrace-ignored-fields: odd\r\n" in response
        writer.close()
