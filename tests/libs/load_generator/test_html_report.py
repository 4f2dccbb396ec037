"""The page of a run is whole, well-formed and asks for nothing from elsewhere."""

import re
from xml.etree import ElementTree

from headrace.load_generator.closed_loop import LoadResult, Workload
from headrace.load_generator.html_report import html_report
from headrace.load_generator.report import summarize
from headrace.load_generator.saved_run import run_of
from headrace.load_generator.stream_client import StreamRecord


def page(records: list[StreamRecord], model: str = "m") -> str:
    result = LoadResult(Workload("", model, len(records), 2, 8, 3), records, 2.0)
    return html_report(run_of(result, summarize(result)))


def record(start: float) -> StreamRecord:
    return StreamRecord(start, [start + 0.1, start + 0.2, start + 0.4], start + 0.5, 3)


def test_it_draws_every_request() -> None:
    found = page([record(0.1 * number) for number in range(300)])
    charts = [ElementTree.fromstring(chart) for chart in re.findall(r"<svg.*?</svg>", found)]
    assert len(charts) == 7
    assert len(charts[-1].findall(".//{*}path")) == 200
    assert "the first 200 of 300" in found
    assert "TTFT" in found
    assert all(float(place) <= 1120 for place in re.findall(r'[xy][12]?="(-?[\d.]+)"', found[: found.rindex("<svg")]))


def test_it_is_alone() -> None:
    found = page([record(0.0)], model="<script>alert(1)</script>")
    assert "<script" not in found
    assert "&lt;script&gt;" in found
    assert re.findall(r"(?:src|href|url|import)\W", found) == []


def test_a_run_without_answers_has_a_page_too() -> None:
    found = page([StreamRecord(0.0, [], 1.0, 0, "refused")])
    assert "refused" in found
    for chart in re.findall(r"<svg.*?</svg>", found):
        ElementTree.fromstring(chart)
