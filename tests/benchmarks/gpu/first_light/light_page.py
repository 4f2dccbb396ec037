"""A page of the first minutes: how each step ended, what was wrong, and what 32 layers would do."""

from typing import Any

LAYERS = 32
Line = dict[str, Any]


def write_page(lines: list[Line]) -> str:
    """Writes a page in Markdown from the results of all steps."""
    parts = ["# First minutes at a card", _ends(lines), _wrong(lines), _decodes(lines), _prefills(lines)]
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
    """Extends the time of a step to 32 layers by the difference between two numbers of layers."""
    times: dict[tuple[str, int, int], dict[int, float]] = {}
    for line in lines:
        if "step_seconds" in line:
            key = (line["graphs"], line["context"], line["batch"])
            times.setdefault(key, {})[line["layers"]] = line["step_seconds"]
    rows = []
    for (graphs, context, batch), found in times.items():
        whole = extend(found)
        rows.append(
            [graphs, str(context), str(batch), f"{whole * 1e3:.2f}", f"{batch / whole:.0f}"]
            if whole
            else [graphs, str(context), str(batch), "–", "–"]
        )
    return _table(("graphs", "context", "batch", f"ms a step, {LAYERS} layers", "tokens/s"), rows) if rows else ""


def _prefills(lines: list[Line]) -> str:
    times: dict[int, dict[int, float]] = {}
    for line in lines:
        if "prefill_seconds" in line:
            times.setdefault(line["prompt"], {})[line["layers"]] = line["prefill_seconds"]
    wholes = {prompt: extend(found) for prompt, found in times.items()}
    rows = [[str(prompt), f"{whole * 1e3:.1f}", f"{prompt / whole:.0f}"] for prompt, whole in wholes.items() if whole]
    return _table(("prompt", f"ms, {LAYERS} layers", "tokens/s"), rows) if rows else ""


def extend(found: dict[int, float]) -> float:
    """Returns the seconds of 32 layers from those of two smaller numbers of layers. 0 where one is missing, or more
    layers took less time, which says nothing."""
    if len(found) < 2:
        return 0.0
    few, many = min(found), max(found)
    each = (found[many] - found[few]) / (many - few)
    return found[few] + (LAYERS - few) * each if each > 0 else 0.0


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
