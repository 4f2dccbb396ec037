"""The walks of `docs/architecture.md` name functions that exist, and no more than a stranger can follow."""

import ast
import re
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import tree_of

ROW = re.compile(r"^\| [^|]+ \| `([\w/]+\.(?:py|h|cpp))` \| ((?:`[\w.]+`(?:, )?)+) \|$", re.MULTILINE)
WALKS = {"One chat request": 70, "One token": 40}
"""Headings of the walks, and the most functions that each may have."""


def steps(root: Path, heading: str) -> list[tuple[str, str]]:
    """File and function of each step of a walk, in order."""
    page = (root / "docs" / "architecture.md").read_text()
    section = page.partition(f"### {heading}")[2].partition("\n##")[0]
    return [(path, name) for path, names in ROW.findall(section) for name in re.findall(r"`([\w.]+)`", names)]


def defined(path: Path) -> set[str]:
    """Functions of a module, methods by the name of their class and their own."""
    if path.suffix != ".py":
        return set(re.findall(r"\b(\w+)\(", path.read_text()))
    found: set[str] = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {node.name, *(f"{node.name}.{name}" for name in inner)}
    return found


@pytest.mark.parametrize("heading", WALKS)
def test_each_step_names_a_function_that_is_there(root: Path, heading: str) -> None:
    walk = steps(root, heading)
    assert len(walk) > 15
    missing = []
    for place, name in walk:
        paths = [path for top in ("libs", "services") if (path := root / top / "headrace" / place).is_file()]
        if not paths or name not in defined(paths[0]):
            missing.append(f"{place} {name}")
    assert missing == []


@pytest.mark.parametrize(("heading", "most"), WALKS.items())
def test_a_stranger_can_follow_it(root: Path, heading: str, most: int) -> None:
    assert len(steps(root, heading)) <= most
