"""Open requests are counted by tenant, model and class, the most first, and the table stays small."""

import io

import pytest
from rich.console import Console

from headrace.cli.commands.top.load_page import load_page
from headrace.cli.commands.top.open_count import MAX_ROWS, OpenCount, open_table

PLATFORM = {"http": "http://127.0.0.1:8000", "started": 0.0, "services": []}


def printed(content: object, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(content)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_they_are_read_from_the_report_of_the_fleet() -> None:
    """A report without any, or a gateway that gives none, has no rows."""
    rows = [
        {"model": "m", "class": "batch", "tenant": "acme", "requests": 2},
        {"model": "m", "class": "default", "tenant": "other", "requests": 7},
    ]
    assert OpenCount.listed({"open": rows}) == [
        OpenCount("other", "m", "default", 7),
        OpenCount("acme", "m", "batch", 2),
    ]
    assert OpenCount.listed({}) == []


@pytest.mark.parametrize("width", [80, 140])
def test_each_has_one_line_whatever_the_length_of_its_names(width: int) -> None:
    rows = [OpenCount("a-tenant-with-a-very-long-name", "organization/" + "model" * 20, "interactive", 123)]
    title, line = printed(open_table(rows, width), width)
    assert title.split() == ["tenant", "model", "class", "open"]
    assert line.endswith("interactive   123")
    assert line.startswith("a-te")


def test_what_does_not_fit_is_counted() -> None:
    rows = [OpenCount(f"t{index}", "m", "default", 1) for index in range(MAX_ROWS + 3)]
    lines = printed(open_table(rows, 80), 80)
    assert len(lines) == 1 + MAX_ROWS
    assert lines[-1].split() == ["4", "more", "4"]
    assert len(printed(open_table(rows[:MAX_ROWS], 80), 80)) == 1 + MAX_ROWS


def test_the_page_has_them_only_while_there_are_some() -> None:
    some = load_page(PLATFORM, [], {}, 80, requests=[OpenCount("acme", "m", "default", 3)])
    assert any("acme" in line for line in printed(some, 80))
    assert not any("tenant" in line for line in printed(load_page(PLATFORM, [], {}, 80), 80))
