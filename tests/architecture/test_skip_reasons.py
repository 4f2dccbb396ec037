"""Every reason for a skip says what is missing and what to do: it is read in the table that closes `make test`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of
from tests.not_tried import SEPARATOR, Skip, make_table, read_skip

SKIPS = {"skip", "skipif", "importorskip"}


def calls(path: Path) -> Iterator[ast.Call]:
    """Everything that skips a test."""
    for node in nodes_of(path, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in SKIPS:
            yield node


def constants(path: Path) -> dict[str, str]:
    """Texts that a file gives a name to."""
    return {
        node.targets[0].id: node.value.value
        for node in nodes_of(path, ast.Assign)
        if isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def reason(call: ast.Call, texts: dict[str, str]) -> str:
    """The source of the reason, as far as it is text."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    value = named[0] if named else call.args[0]
    return texts.get(value.id, "") if isinstance(value, ast.Name) else ast.unparse(value)


@pytest.mark.slow
def test_every_reason_says_what_to_do(root: Path) -> None:
    paths = list((root / "tests").rglob("*.py"))
    texts = {name: text for path in paths for name, text in constants(path).items()}
    found = {path: [reason(call, texts) for call in calls(path)] for path in paths}
    assert sum(map(len, found.values())) > 10
    assert [(path.name, said) for path, every in found.items() for said in every if SEPARATOR not in said] == []


def test_a_skip_is_read_from_a_report() -> None:
    report = pytest.TestReport(
        "tests/libs/test_x.py::test_y[1-2]",
        ("tests/libs/test_x.py", 1, "test_y"),
        {},
        "skipped",
        ("tests/libs/test_x.py", 7, "Skipped: no zork; to run it: install zork"),
        "call",
    )
    skip = read_skip(report)
    assert skip == Skip("test_x.py\n  test_y", "no zork", "install zork")
    assert make_table([skip, skip, Skip("test_z.py", "no rain", "wait")]).row_count == 2
