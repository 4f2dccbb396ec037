"""A page of the first minutes: how each step ended, what was wrong, and rates."""

from typing import Any

Line = dict[str, Any]


def write_page(lines: list[Line]) -> str:
    """Writes a page in Markdown from the results of all steps."""
    parts = [
        "# First minutes at a card",
        _ends(lines),
        _wrong(lines),
        _decodes(lines),
        _prefills(lines),
        _shares(lines),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ends(lines: list[Line]) -> str:
    rows = [[line["step"], line["end"], f"{line['seconds']:.0f}"] for line in lines if "end" in line]
    return _table(("step", "end", "s"), rows)


def _wrong(lines: list[Line]) -> str:
    wrong = [line for line in lines if line.get("ok") is False]
    if not wrong:
        return "Nothing was wrong."
    return "\n".join(["Wrong:", "", *(f"- {_words(line)}" for line in wrong)])


def _words(line: Line) -> str:
    return ", ".join(f"{name} {value}" for name, value in line.items() if name != "ok")[:600]


def _decodes(lines: list[Line]) -> str:
    rows = [
        [
            line["graphs"],
            str(line["context"]),
            str(line["batch"]),
            f"{line['step_seconds'] * 1e3:.2f}",
            f"{line['batch'] / line['step_seconds']:.0f}",
        ]
        for line in lines
        if "step_seconds" in line
    ]
    return _table(("graphs", "context", "batch", "ms a step", "tokens/s"), rows) if rows else ""


def _prefills(lines: list[Line]) -> str:
    rows = [
        [str(line["prompt"]), f"{line['prefill_seconds'] * 1e3:.1f}", f"{line['prompt'] / line['prefill_seconds']:.0f}"]
        for line in lines
        if "prefill_seconds" in line
    ]
    return _table(("prompt", "ms", "tokens/s"), rows) if rows else ""


def _shares(lines: list[Line]) -> str:
    rows = [
        [
            str(line["batch"]),
            line.get("kernel", "whole step").replace("void at::native::", "")[:60],
            f"{line.get('microseconds', line.get('step_microseconds')):.1f}",
            f"{line['launches']:.1f}",
        ]
        for line in lines
        if "launches" in line
    ]
    return _table(("batch", "kernel", "microseconds a step", "launches"), rows) if rows else ""


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
