"""A request of a batch is tried again as long as that may help."""

import pytest

from headrace.gateway.batches.lines.retry_pause import MAX_FAILURES, MAX_SECONDS, retry_pause


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 501])
def test_final_answers_are_final(status: int) -> None:
    assert retry_pause(status, {}, 0) is None


def test_a_limit_is_waited_for_as_long_as_it_says() -> None:
    assert retry_pause(429, {"retry-after-ms": "1500"}, 9) == 1.5
    assert retry_pause(429, {"retry-after-ms": "86400000"}, 0) == MAX_SECONDS
    assert retry_pause(429, {"x-should-retry": "false"}, 0) is None


@pytest.mark.parametrize("try_count", [0, 5, 10_000])
def test_who_cannot_be_served_now_is_served_later(try_count: int) -> None:
    pause = retry_pause(503, {}, try_count)
    assert pause is not None
    assert 0.2 < pause <= MAX_SECONDS


@pytest.mark.parametrize("status", [408, 500, 504])
def test_failures_are_tried_a_few_times(status: int) -> None:
    assert retry_pause(status, {}, MAX_FAILURES - 1) is not None
    assert retry_pause(status, {}, MAX_FAILURES) is None
