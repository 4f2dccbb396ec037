"""The client, over HTTP and over gRPC: one suite, the same results, the same errors."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.half_made_connections import drop_half_made_connections
from tests.harness.running_platform import RunningPlatform

from headrace.client import Answer, Headrace, Message, Tool
from headrace.errors import (
    DeadlineExceeded,
    HeadraceError,
    InvalidRequest,
    ModelNotFound,
    Unavailable,
    Unsupported,
)

QUESTION = "What is continuous batching?"
SCHEMA = {
    "type": "object",
    "properties": {"minutes": {"type": "integer", "minimum": 0, "maximum": 90}},
    "required": ["minutes"],
    "additionalProperties": False,
}
WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
    strict=True,
)
Asked = Callable[[Headrace], Awaitable[Any]]


def addresses(platform: RunningPlatform) -> list[str]:
    return [platform.http, f"grpc://{platform.grpc}"]


def over_both(platform: RunningPlatform, asked: Asked, **arguments: Any) -> list[Any]:
    """Asks over HTTP, then over gRPC. Returns the results, or the errors."""

    async def ask(address: str) -> Any:
        async with Headrace(address, **arguments) as client, asyncio.timeout(60):
            try:
                return await asked(client)
            except HeadraceError as error:
                return error

    return [asyncio.run(ask(address)) for address in addresses(platform)]


def comparable(answer: Answer) -> tuple[Any, ...]:
    """Everything of an answer but its ids, which are drawn, and what a cache found, which the first asked fills."""
    usage = answer.usage
    calls = [(call.name, call.arguments) for call in answer.tool_calls]
    counts = (usage.prompt_tokens, usage.output_tokens, usage.reasoning_tokens)
    return (answer.text, answer.model, answer.finish_reason, counts, calls, answer.token_ids, answer.logprobs)


async def streamed(client: Headrace, question: str, **options: Any) -> Answer:
    stream = client.stream_chat(question, **options)
    chunks = [chunk async for chunk in stream]
    answer = await stream.answer()
    assert "".join(chunk.text for chunk in chunks) == answer.text
    assert [bool(chunk.finish_reason) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    return answer


@pytest.mark.parametrize(
    "asked",
    [
        lambda client: client.chat(QUESTION, temperature=0),
        lambda client: client.chat(QUESTION, temperature=1, seed=7, top_k=20, top_p=0.9, max_tokens=12, logprobs=True),
        lambda client: client.chat([Message("system", "Be brief."), Message("user", QUESTION)], seed=1, stop=["batch"]),
        lambda client: client.chat(QUESTION, temperature=0, json_schema=SCHEMA),
        lambda client: client.chat(
            QUESTION, seed=3, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False
        ),
        lambda client: client.complete("Continuous batching is", temperature=0, logprobs=True, ignore_eos=True),
        lambda client: client.complete([5, 6, 7], temperature=0, max_tokens=5, logit_bias={9: 50.0}),
        lambda client: client.complete("A", temperature=0, choices=["yes", "no"], model="headrace-demo"),
        lambda client: streamed(client, QUESTION, temperature=0),
        lambda client: streamed(client, QUESTION, seed=3, tools=[WEATHER], tool_choice="required", logprobs=True),
    ],
    ids=["chat", "sampled", "stop", "schema", "tool", "complete", "ids", "choices", "stream", "streamed tool"],
)
def test_answers_are_the_same(embedding_platform: RunningPlatform, asked: Asked) -> None:
    http, grpc = over_both(embedding_platform, asked)
    assert comparable(http) == comparable(grpc)
    assert http.finish_reason in ("stop", "length", "tool_calls")
    assert http.text or http.tool_calls
    assert http.usage.output_tokens == len(http.token_ids) > 0


def test_a_stream_is_the_whole(embedding_platform: RunningPlatform) -> None:
    for address in addresses(embedding_platform):

        async def both(address: str = address) -> list[Answer]:
            async with Headrace(address) as client:
                return [await client.chat(QUESTION, seed=5), await streamed(client, QUESTION, seed=5)]

        whole, stream = asyncio.run(both())
        assert comparable(whole) == comparable(stream)


def test_embeddings_rankings_and_models_are_the_same(embedding_platform: RunningPlatform) -> None:
    texts = ["I forgot my password.", "Bread is baked in an oven."]

    async def asked(client: Headrace) -> Any:
        found = await client.embed(texts, dimensions=64)
        tokens = await client.embed([[101, 102]])
        ranking = await client.rerank("How do I reset my password?", texts, top_n=1)
        return (
            found.vectors,
            tokens.vectors,
            found.prompt_tokens,
            ranking.documents,
            ranking.prompt_tokens,
            await client.models(),
        )

    http, grpc = over_both(embedding_platform, asked)
    assert http == grpc
    vectors, _, _, documents, _, models = http
    assert [len(vector) for vector in vectors] == [64] * 2
    assert [(ranked.index, ranked.text) for ranked in documents] == [(0, texts[0])]
    assert [model.name for model in models] == ["minilm", "headrace-demo"]


@pytest.mark.parametrize(
    ("asked", "kind", "has_same_words"),
    [
        (lambda client: client.chat(QUESTION, model="none"), ModelNotFound, True),
        (lambda client: client.chat([]), InvalidRequest, True),
        (lambda client: client.chat([Message("nobody", "hi")]), InvalidRequest, False),
        (lambda client: client.complete(""), InvalidRequest, True),
        (lambda client: client.complete([99_999]), InvalidRequest, True),
        (lambda client: client.complete([5] * 3000), InvalidRequest, True),
        (lambda client: client.complete("a", temperature=9), InvalidRequest, False),
        (lambda client: client.complete("a", max_tokens=0), InvalidRequest, True),
        (lambda client: client.complete("a", regex="(", max_tokens=4), InvalidRequest, True),
        (lambda client: client.complete("a", regex="a", choices=["b"]), InvalidRequest, True),
        (lambda client: client.complete("a", logit_bias={2**40: 1.0}), InvalidRequest, False),
        (lambda client: client.embed("a", model="headrace-demo"), InvalidRequest, True),
        (lambda client: client.embed(["a", [1]]), InvalidRequest, True),
        (lambda client: client.rerank("a", []), InvalidRequest, True),
        (lambda client: client.rerank("a", ["b"], model="none"), ModelNotFound, True),
        (lambda client: client.rerank("a", ["b"], model="headrace-demo"), InvalidRequest, True),
        (lambda client: client.rerank("a", [""]), InvalidRequest, True),
        (lambda client: client.rerank("a", ["b"], instruct="Find towns"), Unsupported, True),
        (lambda client: client.chat(QUESTION, request_id="a b"), InvalidRequest, True),
        (lambda client: streamed(client, QUESTION, model="none"), ModelNotFound, True),
        (lambda client: client.complete("a", max_tokens=1500, ignore_eos=True, timeout=0.2), DeadlineExceeded, False),
    ],
)
def test_errors_are_the_same(
    embedding_platform: RunningPlatform, asked: Asked, kind: type[HeadraceError], has_same_words: bool
) -> None:
    http, grpc = over_both(embedding_platform, asked)
    assert isinstance(http, kind)
    assert isinstance(grpc, kind)
    if has_same_words:
        assert (type(http), http.message, http.param, http.stage) == (type(grpc), grpc.message, grpc.param, grpc.stage)


def test_leaving_a_stream_frees_everything(embedding_platform: RunningPlatform) -> None:
    async def leave(address: str) -> None:
        async with Headrace(address) as client:
            stream = client.stream_complete("Once", max_tokens=1500, ignore_eos=True, request_id="left-early")
            async for chunk in stream:
                assert chunk.token_ids
                break
            partial = await stream.answer()
            assert (partial.finish_reason, partial.request_id) == ("", "left-early")
            # The client stays open: leaving the loop is enough.
            await asyncio.to_thread(embedding_platform.wait_until_idle, 5.0)

    for address in addresses(embedding_platform):
        asyncio.run(leave(address))


def test_cancelling_calls_frees_everything(embedding_platform: RunningPlatform) -> None:
    async def cancel(address: str) -> None:
        async with Headrace(address) as client:
            calls = (client.complete("Once", max_tokens=1500, ignore_eos=True, timeout=60) for _ in range(8))
            asking = asyncio.gather(*calls)
            busy = asyncio.create_task(asyncio.to_thread(embedding_platform.busy_worker))
            await asyncio.wait((asking, busy), return_when=asyncio.FIRST_COMPLETED)
            assert not asking.done(), asking
            await busy
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.to_thread(embedding_platform.wait_until_idle, 5.0)

    for address in addresses(embedding_platform):
        asyncio.run(cancel(address))
    drop_half_made_connections()


def test_traces_tell_of_requests_over_both(embedding_platform: RunningPlatform) -> None:
    def ask(client: Headrace) -> Awaitable[Answer]:
        return client.chat(QUESTION, max_tokens=3, request_id="client-traced")

    assert [answer.request_id for answer in over_both(embedding_platform, ask)] == ["client-traced"] * 2

    async def traces() -> Any:
        async with Headrace(embedding_platform.http) as client:
            return await client.trace("client-traced"), await client.requests(limit=2, outcome="finished")

    trace, listed = asyncio.run(traces())
    assert (trace.outcome, trace.model, trace.output_tokens) == ("finished", "headrace-demo", 3)
    assert sum(trace.stages_ms.values()) > 0
    assert [record.id for record in listed] == ["client-traced"] * 2


def test_usage_is_told_over_http(embedding_platform: RunningPlatform) -> None:
    http, grpc = over_both(embedding_platform, lambda client: client.usage(by="model"))
    assert isinstance(grpc, Unsupported)
    assert "http://" in grpc.message
    assert {row.group for row in http} >= {"headrace-demo"}


def test_nobody_answers() -> None:
    async def ask(address: str) -> None:
        async with Headrace(address, retries=1) as client:
            await client.models(timeout=10)

    for address in ("http://127.0.0.1:1", "grpc://127.0.0.1:1"):
        with pytest.raises(Unavailable, match=r"no platform answers at .*127\.0\.0\.1:1"):
            asyncio.run(ask(address))


def test_a_certificate_is_trusted_or_not(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    for address in ("https://127.0.0.1:1", "grpcs://127.0.0.1:1"):
        with pytest.raises(HeadraceError, match=r"none\.pem"):
            Headrace(address, authority=missing)
