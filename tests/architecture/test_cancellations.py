"""No wait hides a cancellation."""

import ast
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of


def hidden_in(path: Path) -> list[int]:
    """Lists the lines of a module that use `asyncio.wait_for`. Before Python 3.12 it returns, although its task was
    cancelled, where the awaited future is done by then; `asyncio.timeout` and `wait_at_most` do not."""
    return [node.lineno for node in nodes_of(path, ast.Attribute) if is_wait_for(node)]


def is_wait_for(node: ast.Attribute) -> bool:
    return node.attr == "wait_for" and isinstance(node.value, ast.Name) and node.value.id == "asyncio"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("await_ = asyncio.wait_for(event.wait(), 1)", [1]),
        ("condition.wait_for(len, 1)", []),
        ("self.memory.wait_for(name)\nwaiting = asyncio.wait_for", [2]),
    ],
)
def test_it_is_found(tmp_path: Path, source: str, lines: list[int]) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert hidden_in(path) == lines


def test_services_and_libraries_hide_none(root: Path) -> None:
    modules = [path for folder in ("libs", "services") for path in (root / folder).rglob("*.py")]
    assert len(modules) > 500
    assert [f"{path.relative_to(root)}:{line}" for path in modules for line in hidden_in(path)] == []
