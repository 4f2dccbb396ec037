"""The public gRPC API on the bundled model."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.harness.running_platform import RunningPlatform

from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH, SamplingParams
from headrace.v1.tokenizer_pb2 import ChatMessage

INVALID = grpc.StatusCode.INVALID_ARGUMENT
GREEDY = pb.GenerationOptions(sampling_params=SamplingParams(max_token_count=12, temperature=0, ignore_eos=True))


@pytest.fixture
def channel(demo_platform: RunningPlatform) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(demo_platform.grpc) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> inference_pb2_grpc.InferenceServiceStub:
    return inference_pb2_grpc.InferenceServiceStub(channel)


def test_a_stream_adds_up_to_the_whole(stub: inference_pb2_grpc.InferenceServiceStub) -> None:
    request = {"model": "headrace-demo", "text": "Continuous batching is", "options": GREEDY}
    whole = stub.Generate(pb.GenerateRequest(**request), timeout=30).result  # type: ignore[arg-type]
    assert len(whole.token_ids) == 12
    assert whole.finish_reason == FINISH_REASON_LENGTH
    events = list(stub.StreamGenerate(pb.StreamGenerateRequest(**request), timeout=30))  # type: ignore[arg-type]
    assert "".join(event.chunk.text for event in events[:-1]) == whole.text
    assert [token for event in events[:-1] for token in event.chunk.token_ids] == list(whole.token_ids)
    assert events[-1].summary.usage == whole.usage or events[-1].summary.usage.output_token_count == 12


def test_chat(stub: inference_pb2_grpc.InferenceServiceStub) -> None:
    messages = [ChatMessage(role="user", content="What is continuous batching?")]
    answer = stub.Chat(pb.ChatRequest(model="headrace-demo", messages=messages, options=GREEDY), timeout=30)
    assert answer.result.text
    request = pb.StreamChatRequest(model="headrace-demo", messages=messages, options=GREEDY)
    events = list(stub.StreamChat(request, timeout=30))
    assert "".join(event.chunk.text for event in events) == answer.result.text


def test_models(stub: inference_pb2_grpc.InferenceServiceStub) -> None:
    models = stub.ListModels(pb.ListModelsRequest(), timeout=10).models
    assert [model.model for model in models] == ["headrace-demo"]
    assert models[0].max_model_length == 2048


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.GenerateRequest(model="none", text="a"), grpc.StatusCode.NOT_FOUND),
        (pb.GenerateRequest(model="headrace-demo"), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.GenerateRequest(model="headrace-demo", text=""), grpc.StatusCode.INVALID_ARGUMENT),
        (
            pb.GenerateRequest(
                model="headrace-demo",
                text="a",
                options=pb.GenerationOptions(sampling_params=SamplingParams(temperature=9)),
            ),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        *(
            (pb.GenerateRequest(model="headrace-demo", token_ids=pb.TokenIds(values=[bad])), INVALID)
            for bad in (-1, 99_999, 2**31 - 1)
        ),
        *(
            (
                pb.GenerateRequest(
                    model="headrace-demo", text="a", options=pb.GenerationOptions(sampling_params=params)
                ),
                INVALID,
            )
            for params in (
                SamplingParams(top_k=-1),
                SamplingParams(min_token_count=-1),
                SamplingParams(stop_token_ids=[-1]),
                SamplingParams(logit_biases={-1: 1.0}),
            )
        ),
    ],
)
def test_bad_requests(
    stub: inference_pb2_grpc.InferenceServiceStub, request_: pb.GenerateRequest, code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.Generate(request_, timeout=10)
    assert failure.value.code() == code


def test_a_deadline_ends_the_call_and_frees_everything(
    stub: inference_pb2_grpc.InferenceServiceStub, demo_platform: RunningPlatform
) -> None:
    params = SamplingParams(max_token_count=1500, ignore_eos=True)
    request = pb.GenerateRequest(model="headrace-demo", text="a", options=pb.GenerationOptions(sampling_params=params))
    with pytest.raises(grpc.RpcError) as failure:
        stub.Generate(request, timeout=0.2)
    assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    demo_platform.wait_until_idle()


def test_health_and_reflection(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "headrace.v1.InferenceService"):
        response = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert response.status == health_pb2.HealthCheckResponse.SERVING
    database = ProtoReflectionDescriptorDatabase(channel)
    assert "headrace.v1.InferenceService" in database.get_services()
    found = descriptor_pool.DescriptorPool(database).FindServiceByName("headrace.v1.InferenceService")
    assert "StreamChat" in found.methods_by_name
