"""OpenTelemetry traces that cross gRPC metadata, NATS headers and the messages that carry a `traceparent`.

Without an endpoint nothing is recorded, and an incoming trace context is passed on as it came.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

    MakeSampler = Callable[[], Sampler | None]

EXPORT_TIMEOUT = 2
"""Seconds to wait for a collector: one that is away must not delay a stop."""

Attributes: TypeAlias = dict[str, str | int | float | bool | Sequence[str]]
_propagator = TraceContextTextMapPropagator()
_tracer: trace.Tracer | None = None
"""Recorder of spans; None while nothing is recorded. Kept, because looking it up costs as much as a span."""


def configure_tracing(service: str, endpoint: str, make_sampler: "MakeSampler") -> "TracerProvider | None":
    """Sends spans to an OTLP gRPC endpoint such as `127.0.0.1:4317`. An empty endpoint records nothing. `make_sampler`
    makes what decides which traces are recorded; None records traces that the caller records, and all that begin here.
    """
    if not endpoint:
        return None
    # Importing the exporter takes longer than the rest of some services' start, and few have an endpoint.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": f"headrace-{service}", "service.namespace": "headrace"})
    provider = TracerProvider(resource=resource, sampler=make_sampler())
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=EXPORT_TIMEOUT)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    global _tracer
    _tracer = trace.get_tracer("headrace")
    return provider


def edge_sampler(ratio: float, obeys_callers: bool) -> "Sampler":
    """Returns the sampler of a service that strangers call: it records `ratio` of all traces, from 0 to 1, whatever the
    `sampled` flag of a caller says, unless it obeys callers."""
    # As in `configure_tracing`.
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased

    own = TraceIdRatioBased(ratio)
    if obeys_callers:
        return ParentBased(own, remote_parent_sampled=ALWAYS_ON, remote_parent_not_sampled=ALWAYS_OFF)
    return ParentBased(own, remote_parent_sampled=own, remote_parent_not_sampled=own)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, str | int | float | bool | Sequence[str]] | None = None,
    start_time: float | None = None,
    kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    ends: bool = True,
) -> Iterator[trace.Span]:
    """Runs its body inside a span. Free while nothing is recorded. `start_time`: Unix seconds; None is now. Unless it
    `ends` with the body, the body ends it."""
    if _tracer is None:
        yield trace.INVALID_SPAN
        return
    start = None if start_time is None else int(start_time * 1e9)
    opened = _tracer.start_as_current_span(name, attributes=attributes, start_time=start, kind=kind, end_on_exit=ends)
    with opened as current:
        yield current


def trace_id_of(current: trace.Span) -> str:
    """Returns the id of a span's trace in hexadecimal; empty when it is not recorded."""
    return trace.format_trace_id(current.get_span_context().trace_id) if current.is_recording() else ""


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


def is_recorded(traceparent: str) -> bool:
    """Whether this process records spans of the trace that a `traceparent` names."""
    return _tracer is not None and traceparent[-1:] in tuple("13579bdf")


def record_span(
    name: str,
    traceparent: str,
    start_time: float,
    end_time: float,
    attributes: Mapping[str, str | int | float],
    linked: Sequence[str] = (),
) -> None:
    """Records a span after the fact, for work that one step did for many requests. Times are Unix seconds. `linked`:
    `traceparent` of every other trace that the work served."""
    if _tracer is None or not traceparent:
        return
    parent = _propagator.extract({"traceparent": traceparent})
    named = {"gen_ai.provider.name": "headrace", **attributes}
    recorded = _tracer.start_span(
        name, context=parent, start_time=int(start_time * 1e9), attributes=named, links=_links(linked)
    )
    recorded.end(int(end_time * 1e9))


def _links(traceparents: Sequence[str]) -> list[trace.Link]:
    contexts = (_propagator.extract({"traceparent": each}) for each in traceparents)
    return [trace.Link(trace.get_current_span(context).get_span_context()) for context in contexts]
