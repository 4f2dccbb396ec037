"""The chunks of a stream, put together, are the whole response."""

import time
from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.api.entry.numbered_events import NumberedEvents
from headrace.gateway.api.openai.completion_response import CompletionFormat
from headrace.gateway.api.openai.routes.generation import _write_events
from headrace.gateway.api.openai.schema import CompletionBody
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.job import Job, Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH

pytestmark = pytest.mark.anyio


class FakePipeline:
    """Gives the same pieces for every sequence."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces

    async def generate(self, job: Job) -> Any:
        for piece in self._pieces:
            yield piece


class FakeExchange:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    async def send_event(self, event: bytes) -> None:
        self.events.append(event)

    async def end_events(self, last: bytes) -> None:
        self.events.append(last)


def job() -> Job:
    envelope = Envelope(RequestId("r"), time.monotonic(), Deadline.after(5), PUBLIC, "", use_cache=False)
    vocabulary = Vocabulary((b"a", b"b"), frozenset(), False, False)
    return Job(envelope, ModelFacts("m"), vocabulary, [[0]], Options(Sampling(), 2))


async def test_a_prompt_is_repeated_even_when_the_first_token_is_half_a_character() -> None:
    pieces = [Piece("", [1]), Piece("b", [1], finish_reason=FINISH_REASON_LENGTH)]
    exchange: Any = FakeExchange()
    body = CompletionBody(model="m", prompt="a", echo=True, stream=True)
    made = job()
    style = CompletionFormat(made, "cmpl-r", CompletionBody(model="m", prompt="a"), ["a"])
    await _write_events(exchange, body, style, FakePipeline(pieces).generate(made), NumberedEvents(exchange, None))
    text = [event.decode() for event in exchange.events if b'"text"' in event]
    assert '"text":"a"' in text[0]
    assert '"text":"b"' in text[1]
