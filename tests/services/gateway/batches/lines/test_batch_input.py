"""Faults of an input are told by line, and good lines are read as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.gateway.batches.lines.batch_input import MAX_FAULTS, MODERATIONS, BatchInput, InputReport

CHAT = "/v1/chat/completions"
LINE: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "m"}}


def read(tmp_path: Path, content: str, endpoint: str = CHAT, **limits: int) -> BatchInput:
    path = tmp_path / "input.jsonl"
    path.write_text(content)
    return BatchInput(path, endpoint, limits.get("max_lines", 500), limits.get("max_line_bytes", 1000))


def faults(report: InputReport) -> list[tuple[int | None, str]]:
    return [(fault["line"], fault["code"]) for fault in report.errors]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"custom_id": None}, "missing_required_parameter"),
        ({"custom_id": ""}, "missing_required_parameter"),
        ({"method": "GET"}, "invalid_method"),
        ({"url": "/v1/zork"}, "invalid_url"),
        ({"url": MODERATIONS}, "mismatched_url"),
        ({"body": []}, "missing_required_parameter"),
        ({"body": {}}, "missing_required_parameter"),
        ({"body": {"model": "other"}}, "mismatched_model"),
        ({"body": {"model": "m", "stream": True}}, "unsupported_parameter"),
        ({"custom_id": "a"}, "duplicate_custom_id"),
    ],
)
def test_each_fault_is_told_with_its_line(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    lines = [LINE, LINE | {"custom_id": "b"} | change]
    report = read(tmp_path, "\n".join(map(json.dumps, lines))).check()
    assert faults(report) == [(2, code)]


@pytest.mark.parametrize("text", ["{", "[]", '"a"', "\x00"])
def test_a_line_that_is_no_object_is_told(tmp_path: Path, text: str) -> None:
    assert faults(read(tmp_path, f"{json.dumps(LINE)}\n{text}\n").check()) == [(2, "invalid_json_line")]


def test_a_file_without_lines_is_told(tmp_path: Path) -> None:
    assert faults(read(tmp_path, "\n \n").check()) == [(None, "empty_file")]


def test_a_line_that_is_too_long_is_told_and_the_next_is_read(tmp_path: Path) -> None:
    content = json.dumps(LINE | {"body": {"model": "m", "x": "y" * 5000}})
    report = read(tmp_path, f"{content}\n{json.dumps(LINE)}").check()
    assert (faults(report), report.line_count) == ([(1, "line_too_long")], 2)


def test_too_many_lines_and_faults_are_told_once_or_in_part(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(LINE | {"custom_id": str(number)}) for number in range(5))
    assert faults(read(tmp_path, lines, max_lines=4).check()) == [(None, "too_many_lines")]
    assert len(read(tmp_path, "{\n" * (MAX_FAULTS + 9)).check().errors) == MAX_FAULTS


def test_good_lines_are_read_as_they_are(tmp_path: Path) -> None:
    text = '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model": "m",  "x": 1.0}}'
    given = read(tmp_path, f"\n{text}\r\n\n")
    report = given.check()
    assert (report.errors, report.line_count, report.model) == ([], 1, "m")
    assert [(line.custom_id, line.body) for line in given.lines()] == [("a", b'{"model": "m",  "x": 1.0}')]


def test_moderations_need_no_model(tmp_path: Path) -> None:
    line = LINE | {"url": MODERATIONS, "body": {"input": "x"}}
    assert read(tmp_path, json.dumps(line), MODERATIONS).check().errors == []


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    given = read(tmp_path, "\ufeff" + json.dumps(LINE))
    assert given.check().errors == []
    assert [line.custom_id for line in given.lines()] == ["a"]
