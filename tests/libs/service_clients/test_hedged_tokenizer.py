"""A tokenizer that is frozen or away costs a request a second at most, and a long text only time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.to_encode import TextToEncode
from headrace.errors import DeadlineExceeded, ModelNotFound, Unavailable
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients import answer_times, hedged_tokenizer
from headrace.service_clients.hedged_tokenizer import HedgedTokenizer
from headrace.service_clients.tokenizer import GrpcTokenizerClient
from headrace.v1 import tokenizer_pb2 as pb
from headrace.v1 import tokenizer_pb2_grpc

pytestmark = pytest.mark.anyio
TIMEOUT = 20.0


class Servicer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """Answers each text with its own number, when it may."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked_count = 0
        self.cancelled_count = 0

    async def Encode(self, request: pb.EncodeRequest, context: object) -> pb.EncodeResponse:
        self.asked_count += 1
        if request.model != "m":
            raise ModelNotFound("there is only m", param="model")
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled_count += 1
            raise
        return pb.EncodeResponse(token_ids=[self.number])


class Tokenizers:
    """Some servers and who calls them."""

    def __init__(self, servicers: list[Servicer], servers: list[Server], client: HedgedTokenizer) -> None:
        self.servicers = servicers
        self.servers = servers
        self.client = client

    async def encode(self, text: str = "x", model: str = "m", timeout: float = TIMEOUT) -> int:
        (number,) = (await self.client.encode(TextToEncode(model, text), timeout)).token_ids
        return number


@pytest.fixture(params=[2])
async def tokenizers(request: pytest.FixtureRequest) -> AsyncIterator[Tokenizers]:
    servicers = [Servicer(number) for number in range(request.param)]  # type: ignore[abstract]
    servers, channels = [], []
    for servicer in servicers:
        server = Server(
            lambda to, one=servicer: tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(one, to),  # type: ignore[misc]
            ["headrace.v1.TokenizerService"],
        )
        channels.append(open_channel(await server.start("127.0.0.1:0")))
        servers.append(server)
    client = HedgedTokenizer([GrpcTokenizerClient(channel) for channel in channels])
    yield Tokenizers(servicers, servers, client)
    for channel in channels:
        await channel.close()
    for servicer in servicers:
        servicer.may_answer.set()
    for server in servers:
        await server.stop(0)


async def until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(TIMEOUT)
    while not condition():
        assert not deadline.expired
        await asyncio.sleep(0.005)


async def test_all_are_asked_in_turn(tokenizers: Tokenizers) -> None:
    assert {await tokenizers.encode() for _ in range(4)} == {0, 1}
    assert [servicer.asked_count for servicer in tokenizers.servicers] == [2, 2]


async def test_a_frozen_one_is_waited_for_once_and_then_asked_last(tokenizers: Tokenizers) -> None:
    frozen = tokenizers.servicers[0]
    frozen.may_answer.clear()
    assert [await tokenizers.encode() for _ in range(6)] == [1] * 6
    assert frozen.asked_count == 1
    await until(lambda: frozen.cancelled_count == 1)


async def test_answers_that_are_quick_are_soon_late(tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_times, "MAX_PATIENCE", 2 * TIMEOUT)
    assert {await tokenizers.encode() for _ in range(4)} == {0, 1}
    tokenizers.servicers[0].may_answer.clear()
    assert [await tokenizers.encode() for _ in range(2)] == [1] * 2


async def test_one_that_is_away_is_not_waited_for(tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_times, "MAX_PATIENCE", 2 * TIMEOUT)
    await tokenizers.servers[0].stop(0)
    assert [await tokenizers.encode() for _ in range(4)] == [1] * 4


async def test_one_that_comes_back_is_asked_again(tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hedged_tokenizer, "SUSPICION_SECONDS", 0.1)
    tokenizers.servicers[0].may_answer.clear()
    assert await tokenizers.encode() == 1
    tokenizers.servicers[0].may_answer.set()
    await asyncio.sleep(0.15)
    assert {await tokenizers.encode() for _ in range(2)} == {0, 1}


async def test_a_long_text_is_answered_by_the_first_though_all_are_slow(
    tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_times, "MAX_PATIENCE", 0.05)
    for servicer in tokenizers.servicers:
        servicer.may_answer.clear()
    asking = asyncio.create_task(tokenizers.encode())
    await until(lambda: tokenizers.servicers[1].asked_count == 1)
    assert tokenizers.servicers[0].cancelled_count == 0
    tokenizers.servicers[0].may_answer.set()
    assert await asking == 0


async def test_a_refusal_is_an_answer(tokenizers: Tokenizers) -> None:
    with pytest.raises(ModelNotFound):
        await tokenizers.encode(model="other")
    assert sum(servicer.asked_count for servicer in tokenizers.servicers) == 1


async def test_all_away_is_said(tokenizers: Tokenizers) -> None:
    for server in tokenizers.servers:
        await server.stop(0)
    with pytest.raises(Unavailable, match="no tokenizer"):
        await tokenizers.encode()


async def test_all_frozen_ends_in_the_deadline(tokenizers: Tokenizers) -> None:
    for servicer in tokenizers.servicers:
        servicer.may_answer.clear()
    before = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await tokenizers.encode(timeout=0.3)
    assert time.monotonic() - before < TIMEOUT / 2


@pytest.mark.parametrize("tokenizers", [1], indirect=True)
async def test_one_alone_is_waited_for(tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_times, "MAX_PATIENCE", 0.05)
    tokenizers.servicers[0].may_answer.clear()
    asyncio.get_running_loop().call_later(0.3, tokenizers.servicers[0].may_answer.set)
    assert await tokenizers.encode() == 0
    assert tokenizers.servicers[0].asked_count == 1
