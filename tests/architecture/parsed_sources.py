"""Sources as trees, each of which a process reads and parses once: most tests of this folder look at all of them.

A file that changes after it was first asked for is not read again.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

Node = TypeVar("Node", bound=ast.AST)
Other = TypeVar("Other", bound=ast.AST)

LEAVES = (ast.Constant, ast.Name)
"""Nodes without others below them, which are half of all."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@overload
def nodes_of(path: Path, first: type[Node], second: type[Other], /) -> list[Node | Other]: ...
@overload
def nodes_of(path: Path, *kinds: type[Node]) -> list[Node]: ...
def nodes_of(path: Path, *kinds: type[ast.AST]) -> list[Any]:
    """All nodes of these kinds, wherever in the file they are: kind by kind, those of one in the order of ast.walk.
    Contexts, such as ast.Load, are none."""
    found = _by_kind(path)
    return [node for kind in found if issubclass(kind, kinds) for node in found[kind]]


def forget() -> None:
    """Drops all trees, which take some 340 MB."""
    tree_of.cache_clear()
    _by_kind.cache_clear()


@cache
def _by_kind(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """All nodes of a file, which ast.walk takes longer to find."""
    found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    nodes: list[ast.AST] = [tree_of(path)]
    for node in nodes:
        found[type(node)].append(node)
        for field in () if isinstance(node, LEAVES) else node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [entry for entry in value if isinstance(entry, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)
    return dict(found)
