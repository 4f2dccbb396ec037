"""The console's operations: why a request was slow or failed, which requests are found, and what charts show."""

from typing import Any

import pytest
from tests.services.gateway.console.console_script import NO_NODE, NODE, run_script

pytestmark = [pytest.mark.process, pytest.mark.skipif(NODE is None, reason=NO_NODE)]
Json = dict[str, Any]


def record(stages: dict[str, float], total: float = 0, **fields: Any) -> Json:
    usual = {"outcome": "finished", "status": 200, "error": None, "attempts": 1, "response_cache": None}
    counts = {"prompt_tokens": 4000, "cached_tokens": 16, "output_tokens": 1, "tokens_per_second": None}
    return usual | counts | {"stages_ms": stages, "total_ms": total or sum(stages.values())} | fields


def failed(outcome: str, stages: dict[str, float], **fields: Any) -> Json:
    return record(stages, outcome=outcome, **fields)


FULL = "all workers of the model were full"
SENTENCES: dict[str, Json] = {
    f"It waited 1.2 s of 1.9 s in the queue: {FULL}.": record({"parse": 1, "queue": 1200, "decode": 700}),
    "It waited 300 ms of 400 ms on its worker, which was busy with steps of other requests.": record(
        {"worker_queue": 300, "prefill": 100}
    ),
    "Reading the prompt took 1.5 s of 2.0 s: 4,000 tokens, of which 16 came from the cache.": record(
        {"prefill": 1500, "decode": 500}
    ),
    "Writing the answer took 1.6 s of 2.0 s: 120 tokens at 75 tokens/s.": record(
        {"prefill": 400, "decode": 1600}, output_tokens=120, tokens_per_second=75.2
    ),
    "Writing the answer took 1.6 s of 2.0 s: 1 token.": record({"prefill": 400, "decode": 1600}),
    "500 ms of 600 ms went into workers that were lost: it was placed 3 times.": record(
        {"lost": 500, "decode": 100}, attempts=3
    ),
    "The client took 900 ms of 1.0 s to read the answer: it or its network was slow.": record(
        {"flush": 900, "decode": 100}
    ),
    "The request took 900 ms of 1.0 s to arrive: the client or its network was slow.": record(
        {"receive": 900, "decode": 100}
    ),
    "No stage stands out: the longest, worker queue, took 30 ms of 100 ms.": record(
        {"worker_queue": 30, "prefill": 25, "decode": 25, "flush": 20}
    ),
    "It took 9 ms: nothing was slow.": record({"decode": 9}),
    "It took less than 1 ms: nothing was slow.": record({"decode": 0.5}),
    "The response cache had the answer: it took 120 ms.": record({"cache": 120}, response_cache="hit"),
    "No stage was measured.": record({}),
    "It has not ended yet.": record({}, outcome="open"),
    f"It waited 5.0 s of 5.0 s in the queue and was given up: {FULL}.": failed(
        "queue_timeout", {"queue": 5000}, status=408
    ),
    "The client left after 2.0 s, while the answer was written.": failed("request_cancelled", {"decode": 2000}),
    "Its time ran out after 3.0 s, most of it while the prompt was read.": failed(
        "deadline_exceeded", {"queue": 100, "prefill": 2900}, status=504
    ),
    "It was refused with status 400: n must be at least 1.": failed(
        "invalid_value", {"parse": 1}, status=400, error="n must be at least 1"
    ),
    "It was refused with status 404.": failed("not_found", {}, status=404),
    "It failed after 2.0 s, while the answer was written: the worker was lost (stage: decode).": failed(
        "stage_failed", {"decode": 2000}, status=0, error="the worker was lost (stage: decode)"
    ),
    "It failed after 10 ms, while it waited in the queue: no worker serves m.": failed(
        "unavailable", {"queue": 10}, status=503, error="no worker serves m."
    ),
}
LISTED: list[Json] = [
    {
        "id": "a", "model": "m", "path": "/v1/chat/completions", "tenant": "acme", "error": None, "outcome": "finished",
        "started": 1000, "ttft_ms": 5, "total_ms": 50, "prompt_tokens": 1, "output_tokens": 1, "status": 200,
    },
    {
        "id": "b", "model": "n", "path": "/v1/completions", "tenant": "acme", "error": None, "outcome": "finished",
        "started": 2000, "ttft_ms": 9, "total_ms": 20, "prompt_tokens": 8, "output_tokens": 2, "status": 200,
    },
    {
        "id": "c", "model": "", "path": "/v1/Nothing", "tenant": "acme", "error": "nothing at it", "status": 404,
        "outcome": "not_found", "started": 3000, "ttft_ms": None, "total_ms": 1, "prompt_tokens": 0, "output_tokens": 0,
    },
]  # fmt: skip
SEARCHES: list[tuple[Json, list[str]]] = [
    ({}, ["c", "b", "a"]),
    ({"sort": "ttft"}, ["b", "a", "c"]),
    ({"sort": "total"}, ["a", "b", "c"]),
    ({"sort": "tokens"}, ["b", "a", "c"]),
    ({"text": "NOTHING"}, ["c"]),
    ({"text": "acme completions"}, ["b", "a"]),
    ({"text": "404"}, ["c"]),
    ({"text": "acme chat nowhere"}, []),
    ({"model": "m"}, ["a"]),
    ({"outcome": "not_found"}, ["c"]),
    ({"range": "1500"}, ["c", "b"]),
    ({"range": 300, "outcome": "finished"}, []),
]
HISTORY = {
    "times": [10, 20, 30],
    "models": {
        "m": {"running": [1, 2, None], "ttft_p50_ms": [100, None, None], "requests_per_second": [1, 0, None]},
        "n": {"running": [None, 3, None], "ttft_p50_ms": [400, None, None], "requests_per_second": [2, 0, None]},
    },
}
TRENDS: list[tuple[list[str], list[float | None]]] = [
    (["running", ""], [1, 5, None]),
    (["running", "n"], [None, 3, None]),
    (["requests_per_second", ""], [3, 0, None]),
    (["ttft_p50_ms", ""], [300, None, None]),
    (["running", "unknown"], [None, None, None]),
]

SUMS: dict[str, Json] = {
    "Stages add up to 0.48 ms of 0.48 ms (100.0%).": {"stages_ms": {"parse": 0.25, "flush": 0.24}, "total_ms": 0.48},
    "Stages add up to 3.00 ms of 4.00 ms (75.0%).": {"stages_ms": {"parse": 1, "flush": 2}, "total_ms": 4},
}

CACHED: dict[str, Json] = {
    "0": {"cached_tokens": 0, "cached_tokens_from": {"memory": 0, "disk": 0, "worker": 0, "store": 0}},
    "1,200": {"cached_tokens": 1200, "cached_tokens_from": {"memory": 1200, "disk": 0, "worker": 0, "store": 0}},
    "32": {"cached_tokens": 32},
    "416: 32 in the worker's memory, 384 in the shared store": {
        "cached_tokens": 416,
        "cached_tokens_from": {"memory": 32, "disk": 0, "worker": 0, "store": 384},
    },
    "48: 16 on its disk, 32 with another worker": {
        "cached_tokens": 48,
        "cached_tokens_from": {"memory": 0, "disk": 16, "worker": 32, "store": 0},
    },
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Json:
    given = {
        "cached": list(CACHED.values()),
        "records": list(SENTENCES.values()),
        "sums": list(SUMS.values()),
        "listed": LISTED,
        "searches": [one for one, _ in SEARCHES],
        "now": 3100,
        "history": HISTORY,
        "trends": [one for one, _ in TRENDS],
    }
    return dict(run_script("operations_page.mjs", "verdict.js", given, tmp_path_factory.mktemp("operations")))


def test_one_sentence_says_why(played: Json) -> None:
    assert played["verdicts"] == list(SENTENCES)


def test_stages_never_add_up_to_more_than_the_whole(played: Json) -> None:
    assert played["sums"] == list(SUMS)


def test_cached_tokens_name_their_places(played: Json) -> None:
    """Memory alone goes without saying."""
    assert played["cached"] == list(CACHED)


def test_requests_are_found_by_words_and_put_in_order(played: Json) -> None:
    assert played["searches"] == [found for _, found in SEARCHES]
    assert played["untouched"] == ["a", "b", "c"]


def test_models_are_taken_together_or_alone(played: Json) -> None:
    assert played["trends"] == [values for _, values in TRENDS]


def test_a_gap_stays_a_gap(played: Json) -> None:
    assert played["runs"] == [[[0, 0.25], [0.25, 0.5]], [[0.75, 1]]]
    assert played["lines"] == 2
    assert played["summary"] == [{"last": 3, "most": 3, "mean": 2}, None]


def test_the_upper_edge_is_easy_to_read(played: Json) -> None:
    assert played["tops"] == [1, 0.05, 1, 2, 5, 10, 100, 200]


def test_a_chart_says_in_words_what_it_shows(played: Json) -> None:
    assert played["text"].startswith("Speed, the last 10 minutes. 4/s now, 4/s at most, 2.66")
    assert played["pairText"] == (
        "Speed, the last 5 minutes. median: 2/s now, 2/s at most, 1.5/s on average. 95th: no value."
    )
