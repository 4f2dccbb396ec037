"""Metrics of the endpoint picker."""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter(
    "headrace_picker_requests",
    "Requests by outcome: completed, failed (5xx), cut, or the error of one that got no endpoint",
    ["outcome"],
)
OPEN = Gauge("headrace_picker_requests_open", "Requests that were given an endpoint and have not ended")
WAITING = Gauge("headrace_picker_requests_waiting", "Requests that wait for an endpoint")
ENDPOINTS = Gauge("headrace_picker_endpoints", "Endpoints by state: ready or not", ["state"])
FALLBACKS = Counter("headrace_picker_fallbacks", "Requests that another endpoint served than the one that was picked")
FAILED_SCRAPES = Counter("headrace_picker_failed_scrapes", "Scrapes of endpoints that failed")
PICK_TIME = Histogram(
    "headrace_picker_pick_seconds",
    "From the end of a request's body to its endpoint",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
)
FIRST_TOKEN_TIME = Histogram("headrace_picker_first_token_seconds", "From the pick to the first piece of a stream")
PREDICTION_ERROR = Histogram(
    "headrace_picker_first_token_prediction_error",
    "Error of a predicted time from pick to first token, as a share of what it was",
    buckets=(0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
HELD_SHARE = Histogram(
    "headrace_picker_prefix_share",
    "Share of a prompt whose beginning the picked endpoint was sent before",
    buckets=(0, 0.1, 0.25, 0.5, 0.75, 0.9, 1),
)
WANTED = Gauge("headrace_picker_wanted_endpoints", "Endpoints that the pool needs, by the scheduler's measure")
