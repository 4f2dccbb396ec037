"""The endpoint picker protocol, spoken as Envoy speaks it: over gRPC, part by part."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from prometheus_client import REGISTRY
from tests.services.scheduler.picker.gateway import (
    CHAT,
    IDLE,
    KEY,
    A,
    B,
    C,
    Gateway,
    endpoints_of,
    header_of,
    refusal_of,
    request_headers,
    response_headers,
    served_gateway,
    until,
)

from headrace.scheduler.picker.endpoints.pool_endpoint import DISTRUST_SECONDS
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad
from headrace.v1.envoy import external_processor_pb2 as pb

pytestmark = pytest.mark.anyio
LONG = {"model": "m", "messages": [{"role": "user", "content": "All happy families are alike. " * 200}]}


def outcomes(name: str) -> float:
    return REGISTRY.get_sample_value("headrace_picker_requests_total", {"outcome": name}) or 0.0


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with served_gateway() as made:
        made.set_loads({A: IDLE, B: ReportedLoad(4, 0), C: ReportedLoad(8, 0)})
        yield made


async def test_the_header_and_the_metadata_name_the_pick_and_its_fallbacks_in_order(gateway: Gateway) -> None:
    assert endpoints_of(await gateway.stream().ask_chat()) == [A, B, C]


async def test_a_body_that_the_proxy_buffers_is_answered_part_by_part(gateway: Gateway) -> None:
    stream = gateway.stream()
    first = await stream.ask(**request_headers("BUFFERED"))
    assert first.request_headers == pb.HeadersResponse(response=pb.CommonResponse())
    reply = await stream.ask(request_body=pb.HttpBody(body=json.dumps(CHAT).encode(), end_of_stream=True))
    assert endpoints_of(reply) == [A, B, C]
    assert reply.request_body.response.clear_route_cache
    assert not reply.request_body.response.HasField("body_mutation")


async def test_a_body_in_pieces_is_held_until_it_is_whole_and_then_sent_back(gateway: Gateway) -> None:
    body = json.dumps({**CHAT, "padding": "x" * 150_000}).encode()
    stream = gateway.stream()
    await stream.send(**request_headers())
    for start in range(0, len(body), 40_000):
        end = start + 40_000
        await stream.send(request_body=pb.HttpBody(body=body[start:end], end_of_stream=end >= len(body)))
    assert endpoints_of(await stream.read())[0] == A
    pieces: list[pb.StreamedBodyResponse] = []
    while not (pieces and pieces[-1].end_of_stream):
        pieces.append((await stream.read()).request_body.response.body_mutation.streamed_response)
    assert b"".join(piece.body for piece in pieces) == body
    assert max(len(piece.body) for piece in pieces) < 65_536
    assert gateway.room.held_bytes == 0


async def test_trailers_end_a_body_too(gateway: Gateway) -> None:
    stream = gateway.stream()
    await stream.send(**request_headers())
    await stream.send(request_body=pb.HttpBody(body=json.dumps(CHAT).encode()))
    assert endpoints_of(await stream.ask(request_trailers=pb.HttpTrailers())) == [A, B, C]
    assert not (await stream.read()).request_body.response.body_mutation.streamed_response.end_of_stream
    assert (await stream.read()).WhichOneof("response") == "request_trailers"


async def test_a_request_without_a_body_gets_an_endpoint_at_once(gateway: Gateway) -> None:
    reply = await gateway.stream().ask(**request_headers(end_of_stream=True))
    assert endpoints_of(reply) == [A, B, C]
    unseen = await gateway.stream().ask(**request_headers("NONE", content_length="4000"))
    assert endpoints_of(unseen)[0] == A


async def test_a_response_is_passed_on_as_it_is(gateway: Gateway) -> None:
    stream = gateway.stream()
    await stream.ask_chat()
    await stream.read()
    headers = await stream.ask(**response_headers(A))
    assert not headers.response_headers.response.HasField("header_mutation")
    for ends in (False, True):
        reply = await stream.ask(response_body=pb.HttpBody(body=b"data: {}\n\n", end_of_stream=ends))
        piece = reply.response_body.response.body_mutation.streamed_response
        assert (piece.body, piece.end_of_stream) == (b"data: {}\n\n", ends)


async def test_fields_that_are_not_known_are_passed_over(gateway: Gateway) -> None:
    """Attributes, field 9, and one of a number that Envoy has not given yet."""
    message = pb.ProcessingRequest(**request_headers(end_of_stream=True)).SerializeToString()
    unknown = bytes([9 << 3 | 2, 2, 8, 1, 0xFA, 0x7F, 1, 65])
    stream = gateway.stream()
    await stream.call.write(pb.ProcessingRequest.FromString(message + unknown))
    assert endpoints_of(await stream.read())[0] == A


@pytest.mark.parametrize("subset", [[B, C], f"{B}, {C}"])
async def test_only_the_endpoints_of_the_subset_are_named(gateway: Gateway, subset: Any) -> None:
    assert endpoints_of(await gateway.stream().ask_chat(subset=subset)) == [B, C]


@pytest.mark.parametrize("subset", [[], ["10.9.9.9:8000"], ""])
async def test_a_subset_without_a_ready_endpoint_is_unavailable(gateway: Gateway, subset: Any) -> None:
    reply = await gateway.stream().ask_chat(subset=subset)
    status, error = refusal_of(reply)
    assert (status, error["code"]) == (503, "unavailable")
    assert "that the gateway allows is ready" in error["message"]
    assert header_of(reply.immediate_response.headers, "retry-after") == "1"


async def test_a_pool_without_a_ready_endpoint_is_unavailable(gateway: Gateway) -> None:
    for _ in range(2):
        for address in (A, B, C):
            gateway.picker.fail_scrape(address)
    status, error = refusal_of(await gateway.stream().ask_chat())
    assert status == 503
    assert "none of the 3 endpoints of the pool is ready" in error["message"]


async def test_a_request_is_shed_when_all_endpoints_stay_full() -> None:
    async with served_gateway(max_endpoint_request_count=1, queue_seconds=2.0) as gateway:
        gateway.set_loads({A: IDLE})
        first, second = gateway.stream(), gateway.stream()
        await first.ask_chat()
        waiting = asyncio.create_task(second.ask_chat())
        await until(lambda: gateway.picker.waiting_count == 1)
        gateway.now += 2.5
        gateway.picker.tick()
        reply = await waiting
        status, error = refusal_of(reply)
        assert (status, error["code"]) == (429, "overloaded")
        assert "full for 2 s" in error["message"]


async def test_a_request_is_shed_at_once_when_too_many_wait() -> None:
    async with served_gateway(max_endpoint_request_count=1, max_waiting_count=1) as gateway:
        gateway.set_loads({A: IDLE})
        await gateway.stream().ask_chat()
        waiting = gateway.stream()
        await waiting.send(**request_headers(end_of_stream=True))
        await until(lambda: gateway.picker.waiting_count == 1)
        assert refusal_of(await gateway.stream().ask_chat())[0] == 429


async def test_a_waiting_request_gets_the_place_of_one_that_ends() -> None:
    async with served_gateway(max_endpoint_request_count=1) as gateway:
        gateway.set_loads({A: IDLE})
        first, second = gateway.stream(), gateway.stream()
        await first.ask_chat()
        waiting = asyncio.create_task(second.ask_chat())
        await until(lambda: gateway.picker.waiting_count == 1)
        await first.read()
        await first.serve(A)
        assert endpoints_of(await waiting) == [A]


async def test_of_requests_that_wait_the_most_urgent_objective_goes_first() -> None:
    async with served_gateway(max_endpoint_request_count=1, objectives="nightly=batch,voice=realtime") as gateway:
        gateway.set_loads({A: IDLE})
        first = gateway.stream()
        await first.ask_chat()
        waiting = []
        for objective in ("nightly", "default", "voice"):
            asking = gateway.stream().ask_chat(x_llm_d_inference_objective=objective)
            waiting.append(asyncio.create_task(asking))
            await until(lambda: gateway.picker.waiting_count == len(waiting))
        await first.read()
        await first.serve(A)
        assert endpoints_of(await waiting[2]) == [A]
        assert not waiting[0].done()
        assert not waiting[1].done()
        for task in waiting:
            task.cancel()


async def test_a_request_that_cannot_be_in_time_is_shed() -> None:
    async with served_gateway(refused_late_classes="default", queue_seconds=60.0) as gateway:
        gateway.set_loads({A: IDLE})
        stream = gateway.stream()
        assert endpoints_of(await stream.ask_chat({**CHAT, "prompt": "x" * 160_000})) == [A]
        late = await gateway.stream().ask_chat(x_slo_ttft_ms="1000")
        assert refusal_of(late)[0] == 429


async def test_an_endpoint_that_another_had_to_stand_in_for_is_not_picked_next(gateway: Gateway) -> None:
    stream = gateway.stream()
    assert endpoints_of(await stream.ask_chat()) == [A, B, C]
    await stream.read()
    await stream.ask(**response_headers(B))
    assert endpoints_of(await gateway.stream().ask_chat())[0] == B
    assert gateway.picker.open_count_of(A) == 0
    assert gateway.picker.open_count_of(B) == 6
    gateway.now += DISTRUST_SECONDS
    gateway.picker.tick()
    assert endpoints_of(await gateway.stream().ask_chat())[0] == A


async def test_an_endpoint_that_left_gets_no_more_and_what_it_serves_is_followed(gateway: Gateway) -> None:
    stream = gateway.stream()
    assert endpoints_of(await stream.ask_chat())[0] == A
    await stream.read()
    gateway.picker.set_endpoints([B, C])
    assert endpoints_of(await gateway.stream().ask_chat()) == [B, C]
    await stream.serve(A)
    assert gateway.picker.open_count == 1
    assert endpoints_of(await gateway.stream().ask_chat(subset=[A, B])) == [B]
    gateway.set_loads({A: IDLE, B: IDLE})
    assert endpoints_of(await gateway.stream().ask_chat())[0] == A


async def test_an_endpoint_that_computes_nothing_is_passed_over_until_it_does(gateway: Gateway) -> None:
    busy = ReportedLoad(1, 0, output_tokens=10.0)
    gateway.set_loads({A: busy, B: ReportedLoad(4, 0)})
    assert endpoints_of(await gateway.stream().ask_chat())[0] == A
    gateway.picker.take_load(A, busy)
    for _ in range(8):
        gateway.now += 0.2
        gateway.picker.tick()
    assert endpoints_of(await gateway.stream().ask_chat())[0] == B
    gateway.picker.take_load(A, ReportedLoad(1, 0, output_tokens=11.0))
    assert endpoints_of(await gateway.stream().ask_chat())[0] == A


@pytest.mark.parametrize(("status", "next_pick"), [(200, A), (400, A), (503, B)])
async def test_an_endpoint_that_answers_unavailable_is_not_picked_next(
    gateway: Gateway, status: int, next_pick: str
) -> None:
    stream = gateway.stream()
    await stream.ask_chat()
    await stream.read()
    await stream.serve(A, status)
    assert endpoints_of(await gateway.stream().ask_chat())[0] == next_pick


async def test_the_load_of_open_requests_counts_before_the_next_scrape(gateway: Gateway) -> None:
    gateway.set_loads({A: IDLE, B: IDLE})
    first, second = [endpoints_of(await gateway.stream().ask_chat())[0] for _ in range(2)]
    assert {first, second} == {A, B}


async def test_a_prompt_goes_where_its_beginning_is(gateway: Gateway) -> None:
    gateway.set_loads({A: IDLE, B: IDLE})
    busy = gateway.stream()
    await busy.ask_chat(subset=[B], body=LONG)
    await busy.read()
    await busy.serve(B)
    longer = {"model": "m", "messages": [*LONG["messages"], {"role": "user", "content": "And unhappy ones?"}]}
    assert endpoints_of(await gateway.stream().ask_chat(longer))[0] == B
    assert endpoints_of(await gateway.stream().ask_chat({**longer, "model": "other"}))[0] == A


async def test_a_cut_stream_gives_back_all_that_it_holds(gateway: Gateway) -> None:
    unfinished = gateway.stream()
    await unfinished.send(**request_headers())
    await unfinished.send(request_body=pb.HttpBody(body=b"{" * 1000))
    await until(lambda: gateway.room.held_bytes == 1000)
    unfinished.call.cancel()
    await until(lambda: gateway.room.held_bytes == 0)
    placed = gateway.stream()
    await placed.ask_chat()
    assert gateway.picker.open_count == 1
    placed.call.cancel()
    await until(lambda: gateway.picker.open_count == 0 and gateway.servicer.stream_count == 0)
    assert gateway.picker.open_count_of(A) == 0


async def test_a_cut_stream_no_longer_waits_for_an_endpoint() -> None:
    async with served_gateway(max_endpoint_request_count=1) as gateway:
        gateway.set_loads({A: IDLE})
        await gateway.stream().ask_chat()
        waiting = gateway.stream()
        await waiting.send(**request_headers(end_of_stream=True))
        await until(lambda: gateway.picker.waiting_count == 1)
        waiting.call.cancel()
        await until(lambda: gateway.picker.waiting_count == 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not valid JSON: Expecting property name"),
        (b"", "the body is not valid JSON: Expecting value"),
        (b"[]", "the body must be a JSON object"),
        (b"\xff\xfe\xfd", "the body is not valid JSON"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_in_words(gateway: Gateway, body: bytes, message: str) -> None:
    status, error = refusal_of(await gateway.stream().ask_chat(body))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert message in error["message"]


async def test_a_body_that_is_no_json_gets_an_endpoint_by_its_length(gateway: Gateway) -> None:
    assert endpoints_of(await gateway.stream().ask_chat(b"--x\r\n", content_type="multipart/form-data; boundary=x"))


async def test_bodies_have_a_limit_each_and_all_together() -> None:
    async with served_gateway(max_body_bytes=1000, max_held_body_bytes=1500) as gateway:
        gateway.set_loads({A: IDLE})
        assert refusal_of(await gateway.stream().ask_chat(b"x" * 1001))[0] == 413
        announced = await gateway.stream().ask(**request_headers(content_length="1001"))
        assert refusal_of(announced)[0] == 413
        first, second = gateway.stream(), gateway.stream()
        await first.send(**request_headers())
        await first.send(request_body=pb.HttpBody(body=b"{" * 900))
        await until(lambda: gateway.room.held_bytes == 900)
        status, error = refusal_of(await second.ask_chat(b"{" * 700))
        assert (status, error["code"]) == (429, "overloaded")
        assert gateway.room.held_bytes == 900


async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_set() -> None:
    async with served_gateway(body_seconds=0.02) as gateway:
        gateway.set_loads({A: IDLE})
        reply = await gateway.stream().ask(**request_headers())
        assert refusal_of(reply)[0] == 408


async def test_a_response_that_does_not_come_ends_the_stream_and_what_it_holds() -> None:
    async with served_gateway(response_seconds=0.02) as gateway:
        gateway.set_loads({A: IDLE})
        stream = gateway.stream()
        await stream.ask_chat()
        await stream.read()
        assert await stream.read() is grpc.aio.EOF
        assert gateway.picker.open_count == 0


async def test_a_proxy_that_shows_no_response_body_ends_with_its_headers(gateway: Gateway) -> None:
    before = outcomes("completed")
    stream = gateway.stream()
    await stream.ask(**request_headers("NONE", end_of_stream=True))
    reply = await stream.ask(**response_headers(A))
    assert reply.response_headers == pb.HeadersResponse(response=pb.CommonResponse())
    await stream.close()
    assert outcomes("completed") == before + 1
    assert gateway.picker.open_count == 0


async def test_outcomes_are_counted(gateway: Gateway) -> None:
    names = ("completed", "failed", "cut", "invalid", "no endpoint")
    before = {name: outcomes(name) for name in names}
    for status in (200, 500):
        stream = gateway.stream()
        await stream.ask_chat()
        await stream.read()
        await stream.serve(A, status)
    cut = gateway.stream()
    await cut.ask_chat()
    await cut.read()
    await cut.close()
    await gateway.stream().ask_chat(b"{")
    await gateway.stream().ask_chat(subset=[])
    assert {name: outcomes(name) - before[name] for name in names} == dict.fromkeys(names, 1)


async def test_many_streams_are_followed_at_once() -> None:
    async with served_gateway(max_stream_count=100) as gateway:
        gateway.set_loads({A: IDLE, B: IDLE})
        streams = [gateway.stream() for _ in range(100)]
        replies = await asyncio.gather(*(stream.ask_chat() for stream in streams))
        picked = [endpoints_of(reply)[0] for reply in replies]
        assert (picked.count(A), picked.count(B)) == (50, 50)
        # It is refused before it says anything, so there may be no stream any more to say it on.
        assert refusal_of(await gateway.stream().read())[0] == 429
        for stream in streams:
            stream.call.cancel()
        await until(lambda: gateway.picker.open_count == 0)


async def test_a_picker_that_only_watches_answers_nothing(gateway: Gateway) -> None:
    stream = gateway.stream()
    await stream.send(**request_headers(end_of_stream=True), observability_mode=True)
    await stream.send(**response_headers(A), observability_mode=True)
    await stream.call.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def test_a_header_of_the_client_cannot_choose_the_endpoint(gateway: Gateway) -> None:
    reply = await gateway.stream().ask_chat(x_gateway_destination_endpoint=C)
    assert endpoints_of(reply)[0] == A
    (option,) = reply.request_headers.response.header_mutation.set_headers
    assert (option.header.key, option.append_action) == (KEY, option.OVERWRITE_IF_EXISTS_OR_ADD)
