"""An endpoint's report joins its last scrape with the requests that were sent to it since."""

from headrace.scheduler.picker.endpoints.pool_endpoint import (
    BLOCK_TOKENS,
    NOMINAL_PROMPT_TOKENS,
    EndpointLimits,
    PoolEndpoint,
)
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad


def endpoint(load: ReportedLoad, requests: int = 8, waiting: int = 2) -> PoolEndpoint:
    made = PoolEndpoint("10.0.0.1:8000", "pool", EndpointLimits(requests, waiting, failed_scrapes=2))
    made.take_load(load)
    return made


def test_requests_of_others_count_beside_our_own() -> None:
    made = endpoint(ReportedLoad(3, 0))
    made.send("r1", 100, expected_at=5.0)
    report = made.report(now=1.0)
    assert (report.open_count, report.credit_count, report.waiting_token_count) == (4, 4, 100)
    assert report.running_count == 3
    made.take_load(ReportedLoad(4, 0))
    assert made.report(now=1.0).open_count == 4
    made.end("r1")
    assert made.report(now=1.0).open_count == 3


def test_a_prompt_waits_until_its_first_piece_or_the_time_at_which_it_was_expected() -> None:
    made = endpoint(ReportedLoad(0, 0))
    made.send("r1", 100, expected_at=5.0)
    made.send("r2", 10, expected_at=2.0)
    assert made.report(now=1.0).waiting_token_count == 110
    assert made.report(now=2.0).waiting_token_count == 100
    made.begin("r1", seconds=0.5)
    made.begin("unknown", seconds=0.5)
    assert made.report(now=2.0).waiting_token_count == 0
    assert made.report(now=2.0).running_count == 2
    assert made.report(now=2.0).prefill_rate == 200


def test_one_with_a_queue_accepts_nothing() -> None:
    made = endpoint(ReportedLoad(4, 3))
    report = made.report(now=0.0)
    assert (report.credit_count, report.open_count) == (0, 7)
    assert report.waiting_token_count == 3 * NOMINAL_PROMPT_TOKENS


def test_memory_is_counted_where_its_size_is_known() -> None:
    report = endpoint(ReportedLoad(1, 0, kv_share=0.5, kv_token_count=1000 * BLOCK_TOKENS)).report(now=0.0)
    assert (report.block_count, report.used_block_count) == (1000, 500)
    assert endpoint(ReportedLoad(1, 0, kv_share=0.5)).report(now=0.0).block_count == 0


def test_progress_is_seen_in_counters_or_assumed() -> None:
    made = endpoint(ReportedLoad(1, 0, output_tokens=5))
    first = made.report(now=0.0)
    assert made.report(now=0.1).step_count > first.step_count
    made.take_load(ReportedLoad(1, 0, output_tokens=5))
    stuck = made.report(now=0.2)
    assert made.report(now=0.3).step_count == stuck.step_count
    made.take_load(ReportedLoad(1, 0))
    assert made.report(now=0.4).step_count > stuck.step_count


def test_one_that_comes_back_is_another_incarnation() -> None:
    made = endpoint(ReportedLoad(0, 0))
    before = made.report(now=0.0).epoch
    made.fail_scrape()
    assert made.is_ready
    made.fail_scrape()
    assert not made.is_ready
    made.take_load(ReportedLoad(0, 0))
    assert made.is_ready
    assert made.report(now=0.0).epoch > before
