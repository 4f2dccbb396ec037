"""The page of top fits a narrow terminal, and its names stay whole or are cut in the middle."""

import io
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.commands.top.load_page import COLUMNS, KEYS_LINE, brief_ms, legend, load_page, sorted_loads
from headrace.cli.terminal.platform_load import ModelLoad

LONG = "organization/a-model-with-a-very-long-name-instruct-awq"
SERVICES = [
    {"name": name, "state": "ready", "pid": 4194304, "restarts": 1, "model": model}
    for name, model in (("tokenizer-1", ""), ("worker-0", f"{LONG}, headrace-demo"))
]


def loads() -> list[ModelLoad]:
    busy = ModelLoad(LONG, 12, 999, 9999, 123_456.0, 12.3, 99_999.0, 1.0, mbu=0.512, mfu=0.012)
    return [busy, ModelLoad("headrace-demo", 1, 3, 0, 20.0, None, None, 0.5)]


def printed(content: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(content)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("residences", [{}, {LONG: "on disk", "headrace-demo": "awake"}])
def test_a_model_has_one_line(width: int, residences: dict[str, str]) -> None:
    platform = {"http": "http://127.0.0.1:8000", "started": 0.0, "services": SERVICES}
    lines = printed(load_page(platform, loads(), residences, width, key="t"), width)
    assert len(lines) == 1 + 1 + 3 + 1 + 3
    model, other = lines[3], lines[4]
    assert model.startswith("organi" if width < 100 else "organization"[:6])
    assert ("…" in model.split()[0]) == (len(model.split()[0]) < len(LONG))
    assert model.split()[0].endswith("wq")
    assert "123456" in model
    assert "100%" in model
    assert other.startswith("headrace-demo")
    assert ("on disk" in model) == bool(residences)


def test_models_are_sorted_by_a_key() -> None:
    names = ["headrace-demo", LONG]
    assert [load.model for load in sorted_loads(loads(), "n")] == names
    assert [load.model for load in sorted_loads(loads()[::-1], "t")] == names[::-1]
    assert [load.model for load in sorted_loads(loads()[::-1], "")] == names


def test_each_column_is_explained_and_the_keys_fit_a_line() -> None:
    text = "\n".join(printed(legend(), 80))
    assert all(column.title in text for column in COLUMNS)
    assert len(printed(KEYS_LINE, 80)) == 1


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (3.2, "3ms"), (999.4, "999ms"), (1234, "1.2s"), (9949, "9.9s"), (70_000, "70s")]
)
def test_times_are_short(value: float | None, text: str) -> None:
    assert brief_ms(value) == text
