"""Latency budgets of the last requests in a terminal: the class, the request and the stage that was late."""

import pytest
from rich.console import Console

from headrace.cli.commands import missed_budgets
from headrace.cli.commands.missed_budgets import Record, judged, late_stage, show, summed

STAGES = {"tokenize": 5.0, "queue": 900.0, "prefill": 300.0, "decode": 4000.0, "flush": 20.0}


def record(ttft_met: bool | None, tpot_met: bool | None, name: str = "r", class_name: str = "interactive") -> Record:
    outcome = "finished" if ttft_met is not None else "queue_timeout"
    slo = {"ttft_target_ms": 1000.0, "tpot_target_ms": 100.0, "ttft_met": ttft_met, "tpot_met": tpot_met}
    return {
        "id": name,
        "request_id": "",
        "class": class_name,
        "outcome": outcome,
        "ttft_ms": 1205.0 if outcome == "finished" else None,
        "tokens_per_second": 8.0 if outcome == "finished" else None,
        "stages_ms": STAGES if outcome == "finished" else {"tokenize": 5.0, "queue": 30000.0},
        "slo": slo | {"met": bool(ttft_met) and tpot_met is not False},
    }


def shown(records: list[Record], monkeypatch: pytest.MonkeyPatch) -> str:
    console = Console(width=120, color_system=None, record=True, quiet=False)
    monkeypatch.setattr(missed_budgets, "console", console)
    show(records)
    return console.export_text()


def test_the_stage_that_was_late_is_named() -> None:
    assert late_stage(record(False, True)) == "queue"
    assert late_stage(record(True, False)) == "decode"
    assert late_stage(record(None, None)) == "queue"
    assert late_stage(record(None, None) | {"stages_ms": {}}) == ""


def test_each_class_has_a_row() -> None:
    records = [record(True, True), record(False, True), record(True, False), record(False, False), record(None, None)]
    (row, other) = summed([*records, record(True, None, class_name="batch")])
    assert (row["class"], row["requests"], row["met"]) == ("interactive", 5, 1)
    assert (row["first_token_late"], row["tokens_late"], row["failed"], row["mostly"]) == (2, 2, 1, "queue")
    assert other == {
        "class": "batch",
        "requests": 1,
        "met": 1,
        "first_token_late": 0,
        "tokens_late": 0,
        "failed": 0,
        "mostly": None,
    }


def test_requests_that_do_not_count_are_left_out() -> None:
    assert judged([{"id": "old"}, {"id": "broken off", "slo": None}, record(True, True, "counts")])[0]["id"] == "counts"


def test_what_missed_is_listed_with_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown([record(False, True, "late"), record(True, True, "fine")], monkeypatch)
    assert text.splitlines()[1].split() == ["interactive", "2", "50.0%", "1", "0", "0", "queue"]
    (line,) = (line for line in text.splitlines() if line.startswith("late"))
    assert line.split() == ["late", "interactive", "1205/1000", "125/100", "queue"]
    assert "headrace trace late" in text
    assert "fine" not in text


def test_nothing_to_judge_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "None of the last requests counts" in shown([], monkeypatch)
