"""One request is one trace, and one id in the logs, through all five services."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from headrace.testing.running_platform import running_platform

pytestmark = pytest.mark.process
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
EXPECTED = {
    ("headrace-gateway", "generate headrace-demo"),
    ("headrace-tokenizer", "tokenize"),
    ("headrace-cache", "cache lookup"),
    ("headrace-scheduler", "schedule"),
    ("headrace-worker-0", "queue"),
    ("headrace-worker-0", "prefill"),
    ("headrace-worker-0", "decode"),
}


EXPECTED_OF_EMBEDDING = {
    ("headrace-gateway", "embed minilm"),
    *(span for span in EXPECTED if span != ("headrace-gateway", "generate headrace-demo")),
}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps (service, span name) of every span of our trace."""

    def __init__(self) -> None:
        self.spans: set[tuple[str, str]] = set()

    def Export(self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any) -> Any:
        for resource in request.resource_spans:
            attributes = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if span.trace_id.hex() == TRACE_ID:
                        self.spans.add((attributes["service.name"], span.name))
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    server = grpc.server(ThreadPoolExecutor(2))
    servicer = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(0).wait()


def test_one_trace_through_all_services(collector: tuple[Collector, str], tmp_path: Path) -> None:
    servicer, endpoint = collector
    with running_platform(
        tmp_path, ["--engine", "sim", "--log-level", "debug", "--otlp-endpoint", endpoint]
    ) as platform:
        body = {"model": "headrace-demo", "prompt": "Where does the time go?", "max_tokens": 3, "temperature": 0}
        headers = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01", "x-headrace-cache": "on"}
        headers["x-request-id"] = "find-me"
        response = httpx2.post(f"{platform.http}/v1/completions", json=body, headers=headers, timeout=30)
        assert response.status_code == 200
        deadline = time.monotonic() + 20
        while not servicer.spans >= EXPECTED and time.monotonic() < deadline:
            time.sleep(0.05)
        logs = {name: platform.log(name) for name in ("gateway", "tokenizer", "scheduler", "cache", "worker-0")}
    assert [name for name, log in logs.items() if "find-me" not in log] == []
    assert servicer.spans >= EXPECTED


def test_an_embedding_is_one_trace_too(collector: tuple[Collector, str], tmp_path: Path, minilm: Path) -> None:
    servicer, endpoint = collector
    with running_platform(tmp_path, [f"minilm={minilm}", "--otlp-endpoint", endpoint]) as platform:
        headers = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
        body = {"model": "minilm", "input": "Where does the time go?"}
        assert httpx2.post(f"{platform.http}/v1/embeddings", json=body, headers=headers, timeout=30).status_code == 200
        deadline = time.monotonic() + 20
        while not servicer.spans >= EXPECTED_OF_EMBEDDING and time.monotonic() < deadline:
            time.sleep(0.05)
    assert servicer.spans >= EXPECTED_OF_EMBEDDING
