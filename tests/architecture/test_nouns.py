"""One noun per file: a module has at most one public class that does something. Plain data may stand beside it."""

import ast
from pathlib import Path

from tests.architecture.parsed_sources import nodes_of, tree_of

DATA = {"Exception", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Protocol", "Structure", "BaseModel", "TypedDict"}
"""Classes whose descendants are data, errors or interfaces."""


def sources(root: Path) -> list[Path]:
    found = [path for top in ("libs", "services") for path in sorted((root / top / "headrace").rglob("*.py"))]
    assert found
    return [path for path in found if "/headrace/v1/" not in path.as_posix()]


def classes_of(path: Path) -> list[ast.ClassDef]:
    return [node for node in tree_of(path).body if isinstance(node, ast.ClassDef)]


def bases_of(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def data_classes(nodes: list[ast.ClassDef]) -> set[str]:
    """Names of the classes that are data, and of all that descend from them."""
    known = DATA | {node.name for node in nodes if is_dataclass(node)}
    bases = [(node.name, bases_of(node)) for node in nodes]
    while more := {name for name, above in bases if name not in known and above & known}:
        known |= more
    return known


def crowded(paths: list[Path]) -> dict[str, list[str]]:
    data = data_classes([node for path in paths for node in classes_of(path)])
    nouns = {
        path.as_posix(): [n.name for n in classes_of(path) if n.name not in data and not n.name.startswith("_")]
        for path in paths
    }
    return {path: names for path, names in nouns.items() if len(names) > 1}


def test_a_module_has_one_noun(root: Path) -> None:
    assert crowded(sources(root)) == {}


def test_two_nouns_are_found(tmp_path: Path) -> None:
    path = tmp_path / "pair.py"
    path.write_text("class Pair:\n    pass\n\n\nclass Other:\n    pass\n\n\nclass Gone(Exception):\n    pass\n")
    assert crowded([path]) == {path.as_posix(): ["Pair", "Other"]}


def test_what_is_private_is_not_imported(root: Path) -> None:
    wrong = [
        f"{path.relative_to(root)}: {alias.name}"
        for path in sources(root)
        for node in nodes_of(path, ast.ImportFrom)
        if (node.module or "").startswith("headrace")
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert wrong == []
