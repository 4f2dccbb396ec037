"""The waterfall of a request in a terminal."""

import io
from typing import Any

from rich.console import Console

from headrace.cli.commands.trace import MEANINGS, headline, summary, waterfall
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import DECODE, FLUSH, RECEIVE, STAGES, Stopwatch
from headrace.gateway.timing.timings_format import described


def record(**stages: float) -> dict[str, Any]:
    """A record as the gateway tells it, with seconds by stage."""
    watch = Stopwatch(100.0)
    watch.seconds = stages
    watch._last = 100.0 + sum(stages.values())
    made = RequestRecord(watch, client_id="mine", request_id="mine.1", operation="chat", model="m", status=200)
    made.outcome = "finished"
    return described(made)


def printed(content: Any) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(content)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_bars_follow_one_another_and_are_as_long_as_their_share() -> None:
    rows = printed(waterfall(record(**{RECEIVE: 0.25, DECODE: 0.5, FLUSH: 0.25}))).splitlines()[1:]
    assert [row.count("█") for row in rows] == [10, 20, 10]
    assert [row.index("█") - rows[0].index("█") for row in rows] == [0, 10, 30]
    assert rows[1].split()[-2:] == ["500.00", "50.0%"]


def test_a_short_stage_is_still_seen() -> None:
    rows = printed(waterfall(record(**{RECEIVE: 0.0001, DECODE: 1.0}))).splitlines()
    assert rows[1].count("█") == 1


def test_the_longest_stage_is_named() -> None:
    assert "mostly decode" in summary(record(**{RECEIVE: 0.25, DECODE: 0.5}))
    assert "mine.1  chat m  200 finished" in printed(headline(record()))


def test_a_request_without_stages_can_be_shown() -> None:
    assert printed(waterfall(record())).strip().startswith("stage")
    assert summary(record()).startswith("0.0 ms")


def test_every_stage_is_explained() -> None:
    assert list(MEANINGS) == list(STAGES)
