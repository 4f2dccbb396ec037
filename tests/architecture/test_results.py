"""Pages of results can be found: the index names each of them once."""

import re
from pathlib import Path


def test_the_index_names_each_page_once(root: Path) -> None:
    folder = root / "docs" / "results"
    named = re.findall(r"\]\(([^)]+\.md)\)", (folder / "README.md").read_text())
    assert sorted(named) == sorted(page.relative_to(folder).as_posix() for page in folder.rglob("2*.md"))
