"""Each decision has a number, a status, a date, and says what was decided; the index lists each once."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))
HEAD = re.compile(r"# (\d{4}) [A-Z].+\n\nStatus: (accepted|superseded by \d{4}), \d{4}-\d\d-\d\d\n\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_begins_with_number_status_and_date(page: Path) -> None:
    head = HEAD.match(page.read_text())
    assert head is not None
    assert page.name.startswith(f"{head[1]}-")
    assert "**Decision.**" in page.read_text()


def test_numbers_follow_one_another() -> None:
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))


def test_the_index_lists_each_once_by_its_title_and_status() -> None:
    entries = re.findall(
        r"- \[(\d{4} .+)\]\(([^)]+)\)(?: \((superseded by \d{4})\))?", (FOLDER / "README.md").read_text()
    )
    found = sorted((name, title, status) for title, name, status in entries)
    heads = [(page.name, *re.findall(r"# (.+)\n\nStatus: (.+?), ", page.read_text())[0]) for page in PAGES]
    assert found == [(name, title, status if status != "accepted" else "") for name, title, status in heads]
