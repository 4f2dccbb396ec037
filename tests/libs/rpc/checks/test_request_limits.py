"""Requests of strangers are measured before they are parsed."""

import random
import time

import pytest
from google.protobuf.message import Message

from headrace.errors import HeadraceError, InvalidRequest, PayloadTooLarge
from headrace.rpc.checks.request_limits import RequestLimits
from headrace.v1 import inference_pb2 as pb
from headrace.v1.generation_pb2 import SamplingParams
from headrace.v1.tokenizer_pb2 import ChatMessage

LIMITS = RequestLimits(8 * 2**20, field_count=1000, element_count=5000)


def chat(count: int) -> pb.ChatRequest:
    return pb.ChatRequest(model="m", messages=[ChatMessage(role="user", content="x")] * count)


def test_a_request_is_parsed_as_it_was_sent() -> None:
    request = pb.GenerateRequest(
        model="m",
        token_ids=pb.TokenIds(values=range(3000)),
        options=pb.GenerationOptions(sampling_params=SamplingParams(temperature=0.5, logit_biases={7: 1.5})),
    )
    assert LIMITS.parse(pb.GenerateRequest, request.SerializeToString()) == request
    assert LIMITS.parse(pb.ChatRequest, chat(300).SerializeToString()) == chat(300)


def test_unknown_fields_do_no_harm() -> None:
    extra = b"\xfa\x3f\x03abc" + b"\xf8\x3f\x05" + b"\xfd\x3f\x01\x02\x03\x04" + b"\xf9\x3f" + bytes(8)
    parsed = LIMITS.parse(pb.ChatRequest, chat(1).SerializeToString() + extra)
    assert isinstance(parsed, pb.ChatRequest)
    assert parsed.model == "m"


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (pb.ChatRequest, b"\x12\x00" * 4_000_000),
        (pb.ChatRequest, b"\x22\x00" * 4_000_000),
        (pb.ChatRequest, b"\x32\x00" * 4_000_000),
        (pb.ChatRequest, b"\xf8\x3f\x00" * 2_000_000),
        (pb.EmbedRequest, b"\x12\x00" * 4_000_000),
        (pb.GenerateRequest, pb.GenerateRequest(token_ids=pb.TokenIds(values=[1] * 8_000_000)).SerializeToString()),
    ],
)
def test_one_of_too_many_parts_is_refused_before_it_is_built(kind: type[Message], content: bytes) -> None:
    began = time.process_time()
    with pytest.raises(PayloadTooLarge, match="send several smaller ones"):
        RequestLimits(2**30).parse(kind, content)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "content", [b"\x12", b"\x12\x05a", b"\x0b", b"\xff" * 20, b"\x12\x02\x0a\x05", b"\x0a\xff\xff\xff\xff\x0f"]
)
def test_what_is_no_message_is_an_error_of_the_request(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="ChatRequest"):
        LIMITS.parse(pb.ChatRequest, content)


def test_damaged_requests_are_refused_or_parsed() -> None:
    source, whole = random.Random(3), chat(20).SerializeToString()
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            LIMITS.parse(pb.ChatRequest, bytes(damaged))
        except HeadraceError as error:
            assert isinstance(error, InvalidRequest)  # noqa: PT017 - most are parsed
