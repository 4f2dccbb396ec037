"""Docstrings say what they are about: they begin with a verb or a noun, and need no line before them."""

import ast
import re
from pathlib import Path

FORBIDDEN = re.compile(r"\s*(?:Of|What|Whose|How|When|Where|Why|Which|Who|Whoever|Whatever)\b")
"""First words that leave a docstring without a subject. "Whether" is allowed: it tells of something true or false."""


def own_sources(root: Path) -> list[Path]:
    paths = [path for name in ("libs", "services", "tests") for path in (root / name).rglob("*.py")]
    return sorted(path for path in paths if "_pb2" not in path.name)


def docstrings(tree: ast.AST) -> dict[int, str]:
    """Docstrings of modules, classes and functions, and literals under assignments, by line."""
    return {
        node.lineno: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def test_docstrings_begin_with_a_verb_or_a_noun(root: Path) -> None:
    found = {path.relative_to(root): docstrings(ast.parse(path.read_text())) for path in own_sources(root)}
    assert sum(map(len, found.values())) > 1000
    offenders = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, by_line in found.items()
        for line, text in by_line.items()
        if FORBIDDEN.match(text)
    ]
    assert offenders == []


def test_all_kinds_of_docstrings_are_found() -> None:
    source = '"""A."""\nclass C:\n    """B."""\n    x = 1\n    """C."""\n    async def f(self):\n        """Of it."""\n'
    assert docstrings(ast.parse(source)) == {1: "A.", 3: "B.", 5: "C.", 7: "Of it."}
    assert [text for text in docstrings(ast.parse(source)).values() if FORBIDDEN.match(text)] == ["Of it."]
