"""Runs of one kind differ by noise; a slower one is told from a faster one, with its factor in the interval."""

import random
from pathlib import Path

import pytest

from headrace.errors import InvalidRequest
from headrace.load_generator.closed_loop import LoadResult, Workload
from headrace.load_generator.comparison import compare_runs, different_facts
from headrace.load_generator.report import summarize
from headrace.load_generator.saved_run import SavedRun, load_run, run_of, save_run
from headrace.load_generator.stream_client import StreamRecord


def run(seed: int, factor: float = 1.0, count: int = 150, concurrency: int = 4) -> SavedRun:
    """A run of requests that follow one another, each `factor` times as long as drawn."""
    generator = random.Random(seed)
    records, now = [], 1000.0
    for _ in range(count):
        pace = factor * generator.uniform(0.008, 0.012)
        times = [now + pace * (5 + number) for number in range(10)]
        records.append(StreamRecord(now, times, times[-1] + 0.001, 20, input_token_count=3))
        now = times[-1]
    result = LoadResult(Workload("", "m", count, concurrency, 3, 20), records, now - 1000.0)
    return run_of(result, summarize(result))


def test_what_is_the_same_is_noise() -> None:
    verdicts = [metric.verdict for metric in compare_runs(run(1), run(1))]
    assert verdicts == ["noise"] * 8


@pytest.mark.parametrize(("factor", "verdict"), [(1.5, "worse"), (0.6, "better")])
def test_a_difference_is_told_with_its_factor(factor: float, verdict: str) -> None:
    metrics = compare_runs(run(1), run(2, factor))
    assert {metric.verdict for metric in metrics} == {verdict}
    for metric in metrics:
        expected = 1 / factor if metric.name.endswith("/s") else factor
        assert metric.low <= metric.ratio <= metric.high
        assert metric.ratio == pytest.approx(expected, rel=0.1)


def test_intervals_hold_the_truth_most_of_the_time() -> None:
    held = [
        metric.verdict == "noise"
        for number in range(12)
        for metric in compare_runs(run(number, count=40), run(100 + number, count=40))
        if metric.name == "TPOT p50 ms"
    ]
    assert sum(held) >= 9


def test_loads_that_differ_are_named() -> None:
    assert different_facts(run(1), run(2)) == []
    assert different_facts(run(1), run(2, count=10, concurrency=1)) == ["requests", "concurrency"]


def test_a_run_without_answers_has_nothing_to_compare() -> None:
    empty = SavedRun({}, [StreamRecord(0.0, [], 1.0, 0, "refused")], "")
    assert compare_runs(run(1), empty) == []


def test_a_run_is_kept_whole(tmp_path: Path) -> None:
    made, path = run(1, count=5), tmp_path / "run.json"
    save_run(made, path)
    found = load_run(path)
    assert (found.summary, found.created) == (made.summary, made.created)
    assert [len(record.token_times) for record in found.records] == [10] * 5
    assert found.seconds == pytest.approx(made.seconds, abs=0.001)
    rates = found.token_rates(4)
    assert sum(rates) / 4 * found.seconds == pytest.approx(5 * 20)


@pytest.mark.parametrize("text", ["", "{}", '{"format": "other"}', "[1]", '{"format": "headrace-bench-1"}'])
def test_files_that_are_no_runs_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=r"odd\.json"):
        load_run(path)
    with pytest.raises(InvalidRequest, match="cannot read"):
        load_run(tmp_path / "none.json")


def test_a_comparison_shows_the_rates_that_the_run_printed() -> None:
    """Time before the first request and behind the last belongs to neither."""
    one = run(1)
    result = LoadResult(Workload("", "m", 150, 4, 3, 20), one.records, one.seconds * 1.2)
    told = summarize(result)
    shown = {metric.name: metric.first for metric in compare_runs(one, one)}
    assert shown["requests/s"] == pytest.approx(told["requests_per_second"], rel=0.01)
    assert shown["tokens/s"] == pytest.approx(told["output_tokens_per_second"], rel=0.01)
