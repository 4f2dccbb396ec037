"""Metrics of requests: outcomes, durations, stages, and latency budgets met and missed."""

from collections.abc import Mapping

from prometheus_client import Counter, Histogram

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

REQUESTS = Counter("headrace_requests", "Requests by outcome", ["model", "outcome"])
REQUEST_DURATION = Histogram(
    "headrace_request_duration_seconds",
    "From the first byte of a request to its outcome",
    ["model", "outcome"],
    buckets=LATENCY_BUCKETS,
)
TIME_TO_FIRST_TOKEN = Histogram(
    "headrace_time_to_first_token_seconds",
    "From the first byte of a request until its first token is written; of a whole answer, until it is there",
    ["model"],
    buckets=LATENCY_BUCKETS,
)
STAGE_SECONDS = Counter("headrace_stage_seconds", "Time of finished requests, by stage", ["model", "stage"])
CACHED_TOKENS = Counter(
    "headrace_cached_tokens",
    "Prompt tokens of finished requests whose KV was not computed, by where it was: memory, disk, worker or store",
    ["model", "place"],
)
HTTP_REQUESTS = Counter("headrace_http_requests", "HTTP requests, refused ones too", ["route", "method", "status"])
BUDGETS = Counter(
    "headrace_latency_budgets",
    "Requests that met or missed a latency budget of their class: ttft, tpot, or all that apply",
    ["model", "class", "budget", "result"],
)
GOOD_TOKENS = Counter("headrace_good_output_tokens", "Output tokens of requests within all budgets", ["model", "class"])
CACHE_HITS = Counter("headrace_response_cache_hits", "Sequences that the response cache answered", ["model"])
CACHE_MISSES = Counter("headrace_response_cache_misses", "Sequences that the response cache did not know", ["model"])

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_GONE = 499
"""Status, as nginx has it, that stands in metrics for a client that left before there was one."""


def exemplar_of(trace_id: str) -> dict[str, str] | None:
    """Returns the exemplar that leads from a measurement to its trace, or None without a recorded trace."""
    return {"trace_id": trace_id} if trace_id else None


def count_http(route: str, method: str, status: int) -> None:
    """Counts an HTTP request, or a line of a batch. `status`: 0 for a client that left before there was one. An unknown
    method counts as `other`, so that clients cannot make labels."""
    named = method if method in METHODS else "other"
    HTTP_REQUESTS.labels(route=route, method=named, status=str(status or CLIENT_GONE)).inc()


def count_cached(model: str, places: Mapping[str, int]) -> None:
    """Adds the cached tokens of a finished request, by the place that had their KV."""
    for place, count in places.items():
        CACHED_TOKENS.labels(model=model, place=place).inc(count)


def count_stages(model: str, seconds: Mapping[str, float]) -> None:
    """Adds the seconds of each stage of a finished request."""
    for stage, spent in seconds.items():
        STAGE_SECONDS.labels(model=model, stage=stage).inc(spent)
