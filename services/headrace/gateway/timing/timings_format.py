"""Timings as clients read them: the object in a body, the headers of a response, and a record of recent requests."""

from typing import Any

from headrace.gateway.timing.latency_verdict import LatencyVerdict
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import RECEIVE


def timings_of(record: RequestRecord) -> dict[str, Any]:
    """Returns the object `timings`: milliseconds of each stage up to now, and what they led to."""
    per_token = record.output_token_seconds
    return {
        "model": record.model,
        "worker": record.worker_id,
        "total_ms": _ms(record.stopwatch.elapsed),
        "ttft_ms": _ms(record.first_token_seconds),
        "tokens_per_second": round(1 / per_token, 2) if per_token else None,
        "prompt_tokens": record.prompt_token_count,
        "cached_tokens": record.cached_token_count,
        "cached_tokens_from": record.cached_places(),
        "output_tokens": record.output_token_count,
        "response_cache": record.response_cache or None,
        "stages_ms": {stage: _ms(seconds) for stage, seconds in record.stages().items()},
    }


def timing_headers(record: RequestRecord) -> dict[str, str]:
    """Returns the headers that tell the stages up to now: `Server-Timing` (W3C), and OpenAI's `openai-processing-ms`.
    There are none for what has no stages, such as a health check."""
    if RECEIVE not in record.stopwatch.seconds:
        return {}
    stages = ", ".join(f"{stage};dur={seconds * 1000:.2f}" for stage, seconds in record.stages().items())
    headers = {"server-timing": stages, "openai-processing-ms": str(round(record.stopwatch.elapsed * 1000))}
    return headers | ({"x-headrace-cache": record.response_cache} if record.response_cache else {})


def described(record: RequestRecord) -> dict[str, Any]:
    """Returns a record of recent requests as JSON has it."""
    return {
        "id": record.client_id,
        "request_id": record.request_id,
        "started": round(record.started_time, 3),
        "api": record.api,
        "route": record.route,
        "path": record.path,
        "operation": record.operation,
        "class": record.request_class,
        "tenant": record.tenant,
        "stream": record.is_stream,
        "status": record.status,
        "outcome": record.outcome,
        "error": record.error or None,
        "attempts": record.attempt_count,
        "finish_reasons": list(record.finish_reasons),
        "trace_id": record.trace_id or None,
        "slo": None if record.verdict is None else _slo(record.verdict),
        **timings_of(record),
    }


def _slo(verdict: LatencyVerdict) -> dict[str, Any]:
    return {
        "ttft_target_ms": _ms(verdict.ttft),
        "tpot_target_ms": _ms(verdict.tpot),
        "ttft_met": verdict.ttft_met,
        "tpot_met": verdict.tpot_met,
        "met": verdict.met,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
