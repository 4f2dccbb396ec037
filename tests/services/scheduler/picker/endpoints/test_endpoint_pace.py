"""The pace of an endpoint follows from what its counters gained."""

from dataclasses import replace

from headrace.scheduler.picker.endpoints.endpoint_pace import EndpointPace
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad

BEFORE = ReportedLoad(1, 0, prompt_tokens=1000, cached_tokens=500, prefill_seconds=1, step_seconds=2, step_count=100)


def test_rates_are_gains_over_gains_without_what_was_cached() -> None:
    pace = EndpointPace()
    after = replace(BEFORE, prompt_tokens=3000, cached_tokens=1500, prefill_seconds=1.5, step_seconds=3, step_count=150)
    pace.measure(BEFORE, after)
    assert (pace.prefill_rate, pace.step_seconds) == (2000, 0.02)


def test_a_restart_and_a_pause_say_nothing() -> None:
    pace = EndpointPace()
    for after in (BEFORE, replace(BEFORE, prompt_tokens=0, prefill_seconds=0, step_count=0), ReportedLoad(1, 0)):
        pace.measure(BEFORE, after)
    assert (pace.prefill_rate, pace.step_seconds) == (0, 0)


def test_first_tokens_tell_the_rate_where_counters_do_not() -> None:
    pace = EndpointPace()
    pace.note_first_token(10, 0.5)
    assert pace.prefill_rate == 0
    pace.note_first_token(1000, 0.5)
    assert pace.prefill_rate == 2000
    after = replace(BEFORE, prompt_tokens=2000, prefill_seconds=1.25)
    pace.measure(BEFORE, after)
    assert pace.prefill_rate == 4000
