"""Functions fit on a screen; files hold one noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400
MAX_COLUMNS = 120
# What has braces in C++ and is no function. Blocks within functions are counted too, and are shorter.
SCOPES = re.compile(r"\b(namespace|struct|class|enum|extern)\b")
FORBIDDEN_NAMES = {"utils.py", "util.py", "common.py", "misc.py", "helpers.py"}


def own_sources(root: Path) -> list[Path]:
    paths = [*(root / "libs").rglob("*.py"), *(root / "services").rglob("*.py"), *(root / "protos").rglob("*.py")]
    return [path for path in paths if "/headrace/v1/" not in path.as_posix()]


def test_functions_are_short(root: Path) -> None:
    long = []
    for path in own_sources(root):
        for node in nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef):
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


@pytest.fixture
def kernel_sources(root: Path) -> list[Path]:
    paths = sorted((root / "libs/headrace/engine/kernels/src").iterdir())
    assert {path.suffix for path in paths} == {".h", ".cpp"}
    return paths


def test_lines_of_kernels_are_short(kernel_sources: list[Path]) -> None:
    """The formatter breaks what it can; this holds for comments and all else too."""
    lines = [(path.name, number, line) for path in kernel_sources for number, line in _numbered(path.read_text())]
    assert [f"{name}:{number}" for name, number, line in lines if len(line) > MAX_COLUMNS] == []


def test_functions_of_kernels_are_short(kernel_sources: list[Path]) -> None:
    blocks = [(path.name, *block) for path in kernel_sources for block in _blocks(path.read_text())]
    assert len(blocks) > 100
    assert [f"{name}:{line} has {length} lines" for name, line, length in blocks if length > MAX_FUNCTION_LINES] == []


def test_files_of_kernels_are_short(kernel_sources: list[Path]) -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in kernel_sources}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_a_long_function_of_cpp_is_noticed() -> None:
    body = "    if (x) {\n        y();\n    }\n" * 21
    source = f"namespace n {{\nvoid f(int x,\n       int z) {{\n{body}}}\n}}  // namespace n\n"
    assert max(length for _, length in _blocks(source)) == 63


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), start=1)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Finds the first line of each block between braces, and how many lines are inside. No text or character of the
    kernels has a brace."""
    opened: list[tuple[int, bool]] = []
    for number, line in _numbered(text):
        code = line.partition("//")[0]
        for brace in re.findall("[{}]", code):
            if brace == "{":
                opened.append((number, bool(SCOPES.search(code))))
                continue
            first, is_scope = opened.pop()
            if not is_scope:
                yield first, number - first - 1
    assert opened == []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
