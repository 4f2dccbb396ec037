"""OpenTelemetry traces that cross gRPC metadata, NATS headers and the messages that carry a `traceparent`.

Without an endpoint nothing is recorded, and an incoming trace context is passed on as it came.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

EXPORT_TIMEOUT = 2
"""Seconds to wait for a collector: one that is away must not delay a stop."""

_propagator = TraceContextTextMapPropagator()
_recording = False


def configure_tracing(service: str, endpoint: str) -> TracerProvider | None:
    """Sends spans to an OTLP gRPC endpoint such as `127.0.0.1:4317`. An empty endpoint records nothing."""
    if not endpoint:
        return None
    resource = Resource.create({"service.name": f"headrace-{service}", "service.namespace": "headrace"})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=EXPORT_TIMEOUT)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    global _recording
    _recording = True
    return provider


@contextmanager
def span(name: str, attributes: Mapping[str, str | int | float | bool] | None = None) -> Iterator[trace.Span]:
    """Runs its body inside a span. Free while nothing is recorded."""
    if not _recording:
        yield trace.INVALID_SPAN
        return
    with trace.get_tracer("headrace").start_as_current_span(name, attributes=attributes) as current:
        yield current


def current_traceparent() -> str:
    """Returns the trace context of this task as a W3C `traceparent`; empty when there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def continued_trace(traceparent: str) -> Iterator[None]:
    """Runs its body inside the trace that a `traceparent` names. An empty one changes nothing."""
    if not traceparent:
        yield
        return
    token = otel_context.attach(_propagator.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        otel_context.detach(token)


def record_span(
    name: str, traceparent: str, start_time: float, end_time: float, attributes: Mapping[str, str | int]
) -> None:
    """Records a span after the fact, for work that one step did for many requests. Times are Unix seconds."""
    if not traceparent:
        return
    parent = _propagator.extract({"traceparent": traceparent})
    recorded = trace.get_tracer("headrace").start_span(
        name, context=parent, start_time=int(start_time * 1e9), attributes=attributes
    )
    recorded.end(int(end_time * 1e9))
