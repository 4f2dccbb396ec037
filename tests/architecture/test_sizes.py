"""Functions fit on a screen; files hold one noun."""

import ast
from pathlib import Path

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400
FORBIDDEN_NAMES = {"utils.py", "util.py", "common.py", "misc.py", "helpers.py"}


def own_sources(root: Path) -> list[Path]:
    paths = [*(root / "libs").rglob("*.py"), *(root / "services").rglob("*.py"), *(root / "protos").rglob("*.py")]
    return [path for path in paths if "/headrace/v1/" not in path.as_posix()]


def test_functions_are_short(root: Path) -> None:
    long = []
    for path in own_sources(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = [entry for entry in node.body if not _is_docstring(entry)]
                length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{path.relative_to(root)}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def test_files_are_short(root: Path) -> None:
    lengths = {path.relative_to(root).as_posix(): len(path.read_text().splitlines()) for path in own_sources(root)}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_file_is_called_after_nothing(root: Path) -> None:
    assert [path for path in own_sources(root) if path.name in FORBIDDEN_NAMES] == []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
