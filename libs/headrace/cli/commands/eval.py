"""`headrace eval`: measures how well a model predicts a text, in one precision or several."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.cli.engine_parts import require_engine_parts
from headrace.cli.output import console, error_console, fail, print_json
from headrace.launch.platform_spec import ModelSource
from headrace.supervisor.model_source import resolve

if TYPE_CHECKING:
    from headrace.evaluation.quality import Quality
    from headrace.evaluation.served_model import ServedModel

MIB = 1 << 20
SEQUENCE_LENGTH = 256


def evaluate(
    model: str,
    *,
    reference: str | None = None,
    text: Path | None = None,
    precision: tuple[str, ...] = (),
    exact: Annotated[bool, Parameter(negative="")] = False,
    sequences: int = 64,
    record: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Prints a model's perplexity, memory and speed as a worker would run it, and its distance from a reference.

    Parameters
    ----------
    model
        A folder, a GGUF file, headrace-demo, or a hub id.
    reference
        The model to compare with, in its usual precision and exact, such as the one this was quantized from.
    text
        Text to predict; default: one that comes with Headrace.
    precision
        Precision of the weights, such as float32, int8 or int4. Give it several times for a table.
    exact
        Multiply quantized weights by unrounded inputs, as headrace up --exact does.
    sequences
        Most sequences of 256 tokens to predict.
    record
        Store the figures in a file beside the weights, for headrace plan --quality-floor. Requires a reference.
    json
        Print one JSON object.
    """
    if sequences < 1:
        fail("--sequences must be at least 1", json)
    if record and reference is None:
        fail("--record needs --reference: the floor of headrace plan is agreement with another model", json)
    if record and exact:
        fail("--record cannot go with --exact: headrace plan is about what is served unless asked otherwise", json)
    source = resolve([model])[0]
    if reference is not None:
        resolve([reference])
    if text is not None and not text.is_file():
        fail(f"there is no file {text}", json)
    require_engine_parts()
    rows = _measure(source, reference, text, [(name, exact) for name in precision or ("auto",)], sequences)
    if record:
        _record(source.folder, rows)
    if json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        console.print(_table(rows))


@dataclass(frozen=True, slots=True)
class _Row:
    """One model in one precision."""

    model: str
    precision: str
    exact: bool
    """Whether inputs of quantized weights are not rounded."""
    weight_bytes: int
    quality: "Quality"


def _measure(
    source: ModelSource, reference: str | None, text: Path | None, ways: Sequence[tuple[str, bool]], limit: int
) -> list[_Row]:
    """Returns a row for the reference, if there is one, and for each of `ways`: a precision, and whether it is
    exact."""
    from headrace.evaluation.quality import measure
    from headrace.evaluation.served_model import ServedModel
    from headrace.evaluation.text import evaluation_text, read_text
    from headrace.evaluation.token_windows import cut_windows

    content = evaluation_text() if text is None else read_text(text)
    windows = cut_windows(content, source.folder, SEQUENCE_LENGTH, limit)
    length = len(windows[0])
    other_source = None if reference is None else resolve([reference])[0]
    other = None if other_source is None else ServedModel.load(other_source.folder, length, "auto", exact=True)
    columns = (TextColumn("[dim]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows = []
    with Progress(*columns, console=error_console, transient=True) as progress:

        def add(name: str, loaded: "ServedModel", exact: bool, compared: "ServedModel | None") -> None:
            task = progress.add_task(f"{name} {loaded.precision}", total=len(windows))
            quality = measure(loaded, windows, compared, lambda: progress.advance(task))
            rows.append(_Row(name, loaded.precision, exact, loaded.weight_bytes, quality))

        if other_source is not None and other is not None:
            add(other_source.name, other, True, None)
        for precision, exact in ways:
            add(source.name, ServedModel.load(source.folder, length, precision, exact=exact), exact, other)
    return rows


def _record(folder: Path, rows: Sequence[_Row]) -> None:
    """Records every row but the reference, which has no comparison."""
    from headrace.evaluation.quality_record import RecordedQuality, write_record

    compared = [row for row in rows if row.quality.top1_agreement is not None]
    found = {row.precision: RecordedQuality.of(row.precision, row.quality) for row in compared}
    error_console.print(f"[dim]recorded in {write_record(folder, found)}", soft_wrap=True)


def _table(rows: Sequence[_Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("precision")
    table.add_column("exact")
    for title in ("perplexity", "KL", "top-1", "weights MiB", "tok/s"):
        table.add_column(title, justify="right")
    for row in rows:
        quality = row.quality
        table.add_row(
            row.model,
            row.precision,
            "yes" if row.exact else "",
            f"{quality.perplexity:.3f}",
            "" if quality.kl_divergence is None else f"{quality.kl_divergence:.5f}",
            "" if quality.top1_agreement is None else f"{quality.top1_agreement:.1%}",
            f"{row.weight_bytes / MIB:.1f}",
            f"{quality.tokens_per_second:.0f}",
        )
    return table
