"""A vocabulary is built once, and not sent to a caller that has it."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients.tokenizer import GrpcTokenizerClient
from headrace.tokenizer import servicer as module
from headrace.tokenizer.servicer import TokenizerServicer
from headrace.tokenizer.template.template_facts import TemplateFacts
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.translation import vocabulary_of
from headrace.v1.tokenizer_pb2_grpc import add_TokenizerServiceServicer_to_server

pytestmark = pytest.mark.anyio
NO_POOL: Any = None


@pytest.fixture
async def client() -> AsyncIterator[GrpcTokenizerClient]:
    servicer = TokenizerServicer({"m": TextModel("m", CHECKPOINT)}, NO_POOL, 100)
    server = Server(lambda to: add_TokenizerServiceServicer_to_server(servicer, to), ["headrace.v1.TokenizerService"])
    address = await server.start("127.0.0.1:0")
    async with open_channel(address) as channel:
        yield GrpcTokenizerClient(channel)
    await server.stop(0)


async def test_a_vocabulary_is_built_once_and_beside_the_event_loop(
    client: GrpcTokenizerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[bool] = []

    def build(model: TextModel) -> Any:
        try:
            asyncio.get_running_loop()
            built.append(False)
        except RuntimeError:
            built.append(True)
        return vocabulary_of(model)

    monkeypatch.setattr(module, "vocabulary_of", build)
    answers = await asyncio.gather(*(client.get_vocabulary("m", 20) for _ in range(10)))
    assert built == [True]
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0].pieces) > 1000


async def test_who_has_it_gets_the_fingerprint_only(client: GrpcTokenizerClient) -> None:
    whole = await client.get_vocabulary("m", 20)
    known = await client.get_vocabulary("m", 20, [b"another", whole.fingerprint])
    assert known.fingerprint == whole.fingerprint
    assert not known.pieces
    assert await client.get_vocabulary("m", 20, [b"another"]) == whole


@pytest.mark.parametrize(
    "change",
    [
        {"pieces": SimpleNamespace(pieces=[b"ab", b"c"], special_token_ids=[1], strips_leading_space=False)},
        {"pieces": SimpleNamespace(pieces=[b"a", b"bc"], special_token_ids=[], strips_leading_space=False)},
        {"pieces": SimpleNamespace(pieces=[b"a", b"bc"], special_token_ids=[1], strips_leading_space=True)},
        {"eos_token_ids": [0]},
        {"has_chat_template": True},
        {"answer_format": TemplateFacts(tool_call_syntax="mistral")},
    ],
)
def test_everything_that_makes_another_vocabulary_makes_another_fingerprint(change: dict[str, Any]) -> None:
    pieces = SimpleNamespace(pieces=[b"a", b"bc"], special_token_ids=[1], strips_leading_space=False)
    form = TemplateFacts()
    facts: dict[str, Any] = {
        "pieces": pieces,
        "eos_token_ids": [1],
        "has_chat_template": False,
        "answer_format": form,
    }
    first: Any = SimpleNamespace(**facts)
    other: Any = SimpleNamespace(**(facts | change))
    assert vocabulary_of(first).fingerprint == vocabulary_of(first).fingerprint
    assert vocabulary_of(first).fingerprint != vocabulary_of(other).fingerprint
