"""Pages of results can be found: the index names each of them once."""

import re
from pathlib import Path


def test_the_index_names_each_page_once(root: Path) -> None:
    folder = root / "docs" / "results"
    named = re.findall(r"\]\(([^)]+\.md)\)", (folder / "README.md").read_text())
    assert sorted(named) == sorted(page.name for page in folder.glob("2*.md"))
