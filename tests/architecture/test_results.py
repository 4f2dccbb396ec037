"""Pages of results can be found, and the tests that they name: the index has each page once."""

import re
from pathlib import Path


def test_the_index_names_each_page_once(root: Path) -> None:
    folder = root / "docs" / "results"
    named = re.findall(r"\]\(([^)]+\.md)\)", (folder / "README.md").read_text())
    assert sorted(named) == sorted(page.relative_to(folder).as_posix() for page in folder.rglob("2*.md"))


def test_each_finding_names_a_test_that_there_is(root: Path) -> None:
    page = (root / "docs" / "results" / "2026-11-30-findings.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", page)
    assert len(named) > 40
    missing = [(file, test) for file, test in named if f"def {test}(" not in (root / "tests" / file).read_text()]
    assert missing == []
