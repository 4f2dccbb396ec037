"""A file of tenants makes a key needed, over HTTP and over gRPC."""

from collections.abc import Iterator

import grpc
import httpx2
import pytest

from headrace.testing.running_platform import RunningPlatform, running_platform
from headrace.v1 import inference_pb2, inference_pb2_grpc

pytestmark = pytest.mark.slow
KEY = {"authorization": "Bearer hr-acme"}
BODY = {"model": "headrace-demo", "prompt": [5, 6, 7], "max_tokens": 2, "ignore_eos": True}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "tenants.toml").write_text('[acme]\nkeys = ["hr-acme"]\nhighest_class = "batch"\n')
    config = folder / "platform.toml"
    config.write_text(f'[gateway]\ntenants_file = "{folder / "tenants.toml"}"\n')
    with running_platform(folder / "state", ["--engine", "sim", "--config", str(config)]) as platform:
        yield platform


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}])
def test_http_asks_for_a_key_before_it_reads_anything(guarded: RunningPlatform, headers: dict[str, str]) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"):
        refused = httpx2.post(f"{guarded.http}{path}", content=b"{not read", headers=headers, timeout=20)
        assert refused.status_code == 401, path
        assert refused.json()["error"]["code"] == "invalid_api_key"
        assert refused.headers["www-authenticate"] == "Bearer"
    assert httpx2.get(f"{guarded.http}/v1/models", headers=headers, timeout=20).status_code == 401
    for path in ("/", "/health", "/ready", "/metrics"):
        assert httpx2.get(f"{guarded.http}{path}", headers=headers, timeout=20).status_code == 200


def test_a_key_is_enough(guarded: RunningPlatform) -> None:
    for urgency in ({}, {"x-headrace-class": "realtime"}):
        answer = httpx2.post(f"{guarded.http}/v1/completions", json=BODY, headers=KEY | urgency, timeout=20)
        assert answer.status_code == 200, answer.text
    assert httpx2.get(f"{guarded.http}/v1/models", headers=KEY, timeout=20).status_code == 200


def test_grpc_asks_for_a_key(guarded: RunningPlatform) -> None:
    with grpc.insecure_channel(guarded.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        request = inference_pb2.ListModelsRequest()
        with pytest.raises(grpc.RpcError) as refusal:
            stub.ListModels(request, timeout=20)
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
        models = stub.ListModels(request, timeout=20, metadata=tuple(KEY.items())).models
        assert [model.model for model in models] == ["headrace-demo"]
