"""The figures of a load are what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.load_generator.closed_loop import LoadResult, Workload
from headrace.load_generator.percentile import percentile
from headrace.load_generator.report import summarize
from headrace.load_generator.stream_client import StreamRecord


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0, 100))
def test_percentiles_lie_within_the_values(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found is not None
    assert min(values) - 1e-9 <= found <= max(values) + 1e-9


def test_known_percentiles() -> None:
    assert percentile([1, 2, 3, 4, 5], 50) == 3
    assert percentile([1, 2], 50) == 1.5
    assert percentile([], 50) is None


def test_summary() -> None:
    good = StreamRecord(start=0.0, token_times=[0.1, 0.2, 0.4], end=0.5, output_token_count=3)
    slow = StreamRecord(start=0.0, token_times=[2.0, 2.1], end=2.1, output_token_count=2)
    bad = StreamRecord(start=0.0, end=1.0, error="refused")
    summary = summarize(LoadResult(Workload("", "m", 3, 1, 8, 3), [good, slow, bad], 4.0), slo_ttft=1.0)
    assert summary["failed"] == 1
    assert summary["errors"] == ["refused"]
    # From the first request to the end of the last.
    assert summary["seconds"] == pytest.approx(2.1)
    assert summary["output_tokens_per_second"] == pytest.approx(5 / 2.1, abs=0.06)
    assert summary["goodput_requests_per_second"] == pytest.approx(1 / 2.1, abs=0.001)
    assert summary["ttft_ms"]["p50"] == pytest.approx(1050)
    assert summary["tpot_ms"]["p50"] == pytest.approx(125)
