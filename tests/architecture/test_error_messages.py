"""Messages of errors read alike: they begin in lower case, unless with a name, and end without a full stop."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.parsed_sources import nodes_of

from headrace.errors import tree

ERRORS = {
    name for name, value in vars(tree).items() if isinstance(value, type) and issubclass(value, tree.HeadraceError)
}
BEGINS = re.compile(r"(The|There|This|A|An|It|No|Only|Token|Tensor|Module|Request|Model|Pooling|Prompt|Input) ")


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and messages of the errors that a module makes. What is put in stands as {}."""
    for node in nodes_of(path, ast.Call):
        if node.args and called(node) in ERRORS:
            yield from ((node.lineno, text) for text in [written(node.args[0])] if text)


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func).rpartition(".")[2]


def written(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def faulty(path: Path) -> list[str]:
    return [f"{path}:{line}: {text}" for line, text in messages(path) if BEGINS.match(text) or text.endswith(".")]


def test_messages_read_alike(root: Path) -> None:
    paths = [path for top in ("libs", "services") for path in (root / top / "headrace").rglob("*.py")]
    assert sum(len(list(messages(path))) for path in paths) > 200
    assert [fault for path in paths for fault in faulty(path)] == []


def test_a_sentence_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('raise InvalidRequest(f"The prompt has {count} tokens")\nraise errors.Unavailable("wait.")\n')
    assert [fault.rpartition(": ")[2] for fault in faulty(path)] == ["The prompt has {} tokens", "wait."]
