"""One request is one trace, and one id in the logs, through all five services."""

import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.v1 import inference_pb2, inference_pb2_grpc
from headrace.v1.generation_pb2 import SamplingParams

pytestmark = pytest.mark.process
NAMES = ("one", "load", "grpc", "embedding")
TRACE_IDS = {name: f"0af7651916cd43dd8448eb211c80319{digit}" for digit, name in enumerate(NAMES)}
"""The trace of each test. They share platforms."""
EXPECTED = {
    ("headrace-gateway", "text_completion headrace-demo"),
    ("headrace-tokenizer", "tokenize"),
    ("headrace-cache", "cache lookup"),
    ("headrace-scheduler", "schedule"),
    ("headrace-worker-0", "queue"),
    ("headrace-worker-0", "prefill"),
    ("headrace-worker-0", "decode"),
}


OF_GENERATION = {("headrace-gateway", "text_completion headrace-demo"), ("headrace-worker-0", "decode")}
EXPECTED_OF_EMBEDDING = {
    ("headrace-gateway", "embeddings minilm"),
    *(span for span in EXPECTED if span not in OF_GENERATION),
}

STAGE = "headrace.stage."
LOAD = 12
STREAM: dict[str, Any] = {"model": "headrace-demo", "prompt": "Where does the time go?", "max_tokens": 32}
STREAM |= {"temperature": 0, "ignore_eos": True, "stream": True}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span of each trace, by service and name."""

    def __init__(self) -> None:
        self.traces: dict[str, dict[tuple[str, str], Any]] = defaultdict(dict)

    def Export(self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any) -> Any:
        for resource in request.resource_spans:
            attributes = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
            # Either of the two tokenizers may have been asked.
            service = attributes["service.name"].replace("tokenizer-1", "tokenizer")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.traces[span.trace_id.hex()][service, span.name] = span
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, trace_id: str, expected: set[tuple[str, str]]) -> dict[tuple[str, str], Any]:
        """Returns the spans of a trace, once those are there that are expected."""
        deadline = time.monotonic() + 20
        while not self.traces[trace_id].keys() >= expected and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.traces[trace_id].keys() >= expected
        return self.traces[trace_id]


@pytest.fixture(scope="module")
def collector() -> Iterator[tuple[Collector, str]]:
    server = grpc.server(ThreadPoolExecutor(2))
    servicer = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(0).wait()


@pytest.fixture(scope="module", autouse=True)
def _spans_are_sent_at_once() -> Iterator[None]:
    """Not every five seconds. Services inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        yield


@pytest.fixture(scope="module")
def platform(collector: tuple[Collector, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    arguments = ["--engine", "sim", "--log-level", "debug", "--otlp-endpoint", collector[1]]
    with running_platform(tmp_path_factory.mktemp("tracing"), arguments) as running:
        yield running


def test_one_trace_through_all_services(collector: tuple[Collector, str], platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "prompt": "Where does the time go?", "max_tokens": 3, "temperature": 0}
    headers = {"traceparent": f"00-{TRACE_IDS['one']}-b7ad6b7169203331-01", "x-headrace-cache": "on"}
    headers["x-request-id"] = "find-me"
    response = httpx2.post(f"{platform.http}/v1/completions", json=body, headers=headers, timeout=30)
    assert response.status_code == 200
    collector[0].wait_for(TRACE_IDS["one"], EXPECTED)
    logs = {name: platform.log(name) for name in ("gateway", "tokenizer", "scheduler", "cache", "worker-0")}
    assert [name for name, log in logs.items() if "find-me" not in log] == []


def attributes_of(span: Any) -> dict[str, Any]:
    return {entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in span.attributes}


def stream(url: str, name: str, trace_id: str) -> None:
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-00", "x-request-id": name, "x-headrace-cache": "on"}
    prompt = {"prompt": f"{name} {STREAM['prompt']}"}
    response = httpx2.post(f"{url}/v1/completions", json=STREAM | prompt, headers=headers, timeout=30)
    assert response.status_code == 200
    assert response.headers["traceresponse"].split("-")[1] == trace_id


def test_a_trace_explains_the_time_under_load(collector: tuple[Collector, str], platform: RunningPlatform) -> None:
    """Five services tell of one of many requests, whose stages fill the time. A client's flag does not decide."""
    others = [f"{number + 1:032x}" for number in range(LOAD)]
    with ThreadPoolExecutor(LOAD + 1) as pool:
        load = [pool.submit(stream, platform.http, f"r{n}", each) for n, each in enumerate(others)]
        load.append(pool.submit(stream, platform.http, "ours", TRACE_IDS["load"]))
    for each in load:
        each.result()
    spans = collector[0].wait_for(TRACE_IDS["load"], EXPECTED)
    root = spans["headrace-gateway", "text_completion headrace-demo"]
    told = attributes_of(root)
    seconds = (root.end_time_unix_nano - root.start_time_unix_nano) / 1e9
    assert sum(value for key, value in told.items() if key.startswith(STAGE)) >= 0.95 * seconds * 1000
    assert told["gen_ai.usage.output_tokens"] == 32
    assert told["gen_ai.operation.name"] == "text_completion"
    assert told["gen_ai.latency.time_to_first_token"] <= told["gen_ai.latency.e2e"] <= 1.05 * seconds
    assert {f"{STAGE}{name}_ms" for name in ("prefill", "decode", "detokenize", "serialize", "flush")} <= told.keys()
    for service, name in EXPECTED - {("headrace-gateway", root.name)}:
        child = spans[service, name]
        assert root.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano
    for other in others:
        collector[0].wait_for(other, {("headrace-gateway", root.name)})


def test_the_grpc_api_has_a_trace_and_the_clients_id(
    collector: tuple[Collector, str], platform: RunningPlatform
) -> None:
    options = inference_pb2.GenerationOptions(sampling_params=SamplingParams(max_token_count=3, temperature=0))
    request = inference_pb2.GenerateRequest(model="headrace-demo", text="Where?", options=options)
    metadata = (("traceparent", f"00-{TRACE_IDS['grpc']}-b7ad6b7169203331-01"), ("x-request-id", "find-me-by-grpc"))
    with grpc.insecure_channel(platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        _, call = stub.Generate.with_call(request, metadata=metadata, timeout=30)
        assert dict(call.initial_metadata())["x-request-id"] == "find-me-by-grpc"
        record = httpx2.get(f"{platform.http}/headrace/requests/find-me-by-grpc", timeout=5).json()
        with pytest.raises(grpc.RpcError):
            stub.Generate(inference_pb2.GenerateRequest(model="nobody", text="?"), timeout=30)
        refused = httpx2.get(f"{platform.http}/headrace/requests/last", timeout=5).json()
    expected = {("headrace-gateway", "text_completion headrace-demo"), ("headrace-worker-0", "prefill")}
    collector[0].wait_for(TRACE_IDS["grpc"], expected)
    assert (record["api"], record["outcome"], record["trace_id"]) == ("grpc", "finished", TRACE_IDS["grpc"])
    assert (refused["api"], refused["outcome"]) == ("grpc", "model_not_found")


def test_an_embedding_is_one_trace_too(collector: tuple[Collector, str], tmp_path: Path, minilm: Path) -> None:
    with running_platform(tmp_path, [f"minilm={minilm}", "--otlp-endpoint", collector[1]]) as platform:
        headers = {"traceparent": f"00-{TRACE_IDS['embedding']}-b7ad6b7169203331-01"}
        body = {"model": "minilm", "input": "Where does the time go?"}
        assert httpx2.post(f"{platform.http}/v1/embeddings", json=body, headers=headers, timeout=30).status_code == 200
        collector[0].wait_for(TRACE_IDS["embedding"], EXPECTED_OF_EMBEDDING)
