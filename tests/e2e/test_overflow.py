"""Requests for which a queue has no room go to the smaller model that the operator names, and say so."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace import demo_model
from headrace.v1 import inference_pb2 as pb
from headrace.v1.inference_pb2_grpc import InferenceServiceStub
from headrace.v1.tokenizer_pb2 import ChatMessage

pytestmark = pytest.mark.slow
CONFIG = """
[scheduler]
max_waiting_count = 1
[worker]
max_running_count = 2
sim_base_seconds = 0.02
[gateway]
overflow = {big = "small"}
"""
AT_ONCE = 6
Answer = tuple[bool, str | None, set[str]]
"""Whether there was one, the model that was asked for where another answered, and the models that it names."""
Ask = Callable[[RunningPlatform, str], Awaitable[Answer]]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("overflow")
    (folder / "platform.toml").write_text(CONFIG)
    models = [f"{name}={demo_model.CHECKPOINT}" for name in ("big", "small")]
    arguments = [*models, "--engine", "sim", "--config", str(folder / "platform.toml")]
    with running_platform(folder / "state", arguments) as platform:
        yield platform


def over_http(path: str, **fields: object) -> Ask:
    async def ask(platform: RunningPlatform, model: str) -> Answer:
        async with httpx2.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{platform.http}{path}", json={"model": model, **fields})
        assert answer.status_code in (200, 503, 529), answer.text
        assert answer.headers.get("x-headrace-ignored-fields") in (None, "odd"), "each is named once"
        named = {part.split('"')[1] for part in answer.text.replace(" ", "").split('"model":')[1:]}
        return answer.status_code == 200, answer.headers.get("x-headrace-overflow"), named

    return ask


def over_grpc(stream: bool) -> Ask:
    async def ask(platform: RunningPlatform, model: str) -> Answer:
        messages = [ChatMessage(role="user", content="Hello")]
        options = pb.GenerationOptions()
        options.sampling_params.max_token_count = 40
        async with grpc.aio.insecure_channel(platform.grpc) as channel:
            stub = InferenceServiceStub(channel)
            call: Any
            if stream:
                call = stub.StreamChat(
                    pb.StreamChatRequest(model=model, messages=messages, options=options), timeout=60
                )
                with contextlib.suppress(grpc.RpcError):
                    async for _ in call:
                        pass
            else:
                call = stub.Chat(pb.ChatRequest(model=model, messages=messages, options=options), timeout=60)
            origin = dict(await call.trailing_metadata() or ()).get("x-headrace-overflow")
            code = await call.code()
        assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
        answered = code is grpc.StatusCode.OK
        return answered, None if origin is None else str(origin), set()

    return ask


SAID = [{"role": "user", "content": "Hello"}]
DIALECTS = {
    "completions": over_http("/v1/completions", prompt=[5, 6, 7], max_tokens=40, ignore_eos=True),
    "streamed completions": over_http("/v1/completions", prompt=[5, 6], max_tokens=40, ignore_eos=True, stream=True),
    "chats": over_http("/v1/chat/completions", messages=SAID, max_tokens=40, ignore_eos=True, odd=1),
    "messages": over_http("/v1/messages", messages=SAID, max_tokens=40),
    "streamed messages": over_http("/v1/messages", messages=SAID, max_tokens=40, stream=True),
    "responses": over_http("/v1/responses", input="Hello", max_output_tokens=40),
    "streamed responses": over_http("/v1/responses", input="Hello", max_output_tokens=40, stream=True),
    "gRPC": over_grpc(stream=False),
    "streamed gRPC": over_grpc(stream=True),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_what_overflows_is_answered_by_the_smaller_model(crowded: RunningPlatform, name: str) -> None:
    async def all_at_once(model: str) -> list[Answer]:
        return await asyncio.gather(*(DIALECTS[name](crowded, model) for _ in range(AT_ONCE)))

    answers = asyncio.run(all_at_once("big"))
    overflowed = [answer for answer in answers if answer[1] is not None]
    assert overflowed, answers
    assert {origin for _, origin, _ in overflowed} == {"big"}
    for answered, origin, models in answers:
        if answered and models:
            assert models == ({"big"} if origin is None else {"small"})
    assert any(answered for answered, _, _ in overflowed)


def test_the_smaller_model_sends_away_what_it_has_no_room_for(crowded: RunningPlatform) -> None:
    async def all_at_once() -> list[Answer]:
        return await asyncio.gather(*(DIALECTS["completions"](crowded, "small") for _ in range(AT_ONCE)))

    answers = asyncio.run(all_at_once())
    assert {origin for _, origin, _ in answers} == {None}
    assert not all(answered for answered, _, _ in answers)
