"""Root span of a request, with the attributes of OpenTelemetry's conventions for generative AI."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind

from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import DECODE, PREFILL, QUEUE, WORKER_QUEUE
from headrace.telemetry.traces import Attributes, span, trace_id_of

PROVIDER = "headrace"


@contextmanager
def request_span(record: RequestRecord) -> Iterator[None]:
    """Runs its body in a span that begins with the request and tells at its end where the time went."""
    named: Attributes = {
        "gen_ai.operation.name": record.operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": record.model,
        "headrace.request_id": record.client_id,
    }
    name, start = f"{record.operation} {record.model}", record.started_time
    with span(name, named, start_time=start, kind=SpanKind.SERVER, ends=False) as current:
        record.trace_id = trace_id_of(current)
        try:
            yield
        finally:
            if current.is_recording():
                current.set_attributes(attributes_of(record))
            # Ends with the last byte: the cleanup afterwards delays no client.
            current.end(int((start + record.stopwatch.elapsed) * 1e9))


def attributes_of(record: RequestRecord) -> Attributes:
    """Returns the attributes known at the end: tokens, reasons, latencies in seconds and each stage in milliseconds.
    The names `gen_ai.latency.*` are vLLM's."""
    stages = record.stages()
    found: Attributes = {
        "gen_ai.response.id": record.request_id,
        "gen_ai.response.model": record.model,
        "gen_ai.usage.input_tokens": record.prompt_token_count,
        "gen_ai.usage.output_tokens": record.output_token_count,
        "gen_ai.usage.cache_read.input_tokens": record.cached_token_count,
        "gen_ai.latency.e2e": record.stopwatch.elapsed,
        "gen_ai.latency.time_in_queue": stages.get(QUEUE, 0.0) + stages.get(WORKER_QUEUE, 0.0),
        "gen_ai.latency.time_in_model_prefill": stages.get(PREFILL, 0.0),
        "gen_ai.latency.time_in_model_decode": stages.get(DECODE, 0.0),
        "headrace.outcome": record.outcome,
        "headrace.class": record.request_class,
        "headrace.worker": record.worker_id,
        "headrace.attempts": record.attempt_count,
        **{f"headrace.stage.{stage}_ms": round(seconds * 1000, 3) for stage, seconds in stages.items()},
    }
    if record.finish_reasons:
        found["gen_ai.response.finish_reasons"] = tuple(record.finish_reasons)
    if (first := record.first_token_seconds) is not None:
        found |= {"gen_ai.response.time_to_first_chunk": first, "gen_ai.latency.time_to_first_token": first}
    return found
