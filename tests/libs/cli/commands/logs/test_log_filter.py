"""Lines are chosen by time, level and request."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.cli.commands.logs.log_filter import LogFilter, parse_since, request_in_logs
from headrace.cli.commands.logs.log_line import LogLine
from headrace.errors import InvalidRequest

NOW = datetime.now(UTC)


def line(level: str = "info", age: float | None = 0.0, text: str = "") -> LogLine:
    return LogLine("worker-0", text, None if age is None else NOW - timedelta(seconds=age), level, "")


def test_levels_count_from_one_up() -> None:
    chosen = LogFilter(level="warning")
    assert [chosen.lets_through(line(level)) for level in ("debug", "info", "warning", "critical", "odd")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_line_without_a_time_is_older_than_any() -> None:
    chosen = LogFilter(since=NOW - timedelta(seconds=5))
    assert [chosen.lets_through(line(age=age)) for age in (0.0, 6.0, None)] == [True, False, False]
    assert LogFilter().lets_through(line(age=None))


def test_a_request_is_found_under_the_id_that_its_answer_has() -> None:
    chosen = LogFilter(request=request_in_logs("chatcmpl-abc123"))
    assert chosen.lets_through(line(text='{"request_id": "abc123"}'))
    assert not chosen.lets_through(line(text='{"request_id": "other"}'))
    assert chosen.is_narrow
    assert not LogFilter().is_narrow


def test_times_are_written_in_several_ways() -> None:
    before = datetime.now(UTC)
    assert before <= parse_since("15m") + timedelta(minutes=15) <= datetime.now(UTC)
    assert parse_since("2026-11-28T03:15:06+00:00") == datetime(2026, 11, 28, 3, 15, 6, tzinfo=UTC)
    local = datetime(2026, 11, 28, 3, 15).astimezone()
    assert parse_since("2026-11-28 03:15") == local
    soon = (datetime.now().astimezone() + timedelta(minutes=2)).replace(second=0, microsecond=0)
    assert parse_since(f"{soon:%H:%M}") < datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "soon", "15", "25:00", "-5m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"--since is .*15m"):
        parse_since(text)
