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
from headrace.supervisor.model_source import ModelSource, resolve

if TYPE_CHECKING:
    from headrace.engine.evaluation.quality import Quality
    from headrace.engine.evaluation.sequence_model import SequenceModel

MIB = 1 << 20
SEQUENCE_LENGTH = 256


def evaluate(
    model: str,
    *,
    reference: str | None = None,
    text: Path | None = None,
    precision: tuple[str, ...] = (),
    sequences: int = 64,
    record: bool = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Prints perplexity, memory and speed, and how far the model is from a reference.

    Parameters
    ----------
    model
        A folder, a GGUF file, headrace-demo, or a hub id.
    reference
        The model to compare with, in its usual precision, such as the one that this was quantised from.
    text
        What to predict; a text that comes with Headrace when not given.
    precision
        A precision to hold the weights in, such as float32, int8 or int4. Give it several times for a table.
    sequences
        Most sequences of 256 tokens to predict.
    record
        Keep the figures in a file beside the weights, for headrace plan --quality-floor. Needs a reference.
    json
        Print one JSON object.
    """
    if sequences < 1:
        fail("--sequences must be at least 1", json)
    if record and reference is None:
        fail("--record needs --reference: the floor of headrace plan is agreement with another model", json)
    require_engine_parts()
    source = resolve([model])[0]
    rows = _measure(source, reference, text, precision or (None,), sequences)
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
    weight_bytes: int
    quality: "Quality"


def _measure(
    source: ModelSource, reference: str | None, text: Path | None, precisions: Sequence[str | None], limit: int
) -> list[_Row]:
    from headrace.engine.evaluation.quality import measure
    from headrace.engine.evaluation.sequence_model import SequenceModel
    from headrace.engine.evaluation.text import evaluation_text, read_text
    from headrace.engine.evaluation.token_windows import cut_windows

    content = evaluation_text() if text is None else read_text(text)
    windows = cut_windows(content, source.folder, SEQUENCE_LENGTH, limit)
    length = len(windows[0])
    other_source = None if reference is None else resolve([reference])[0]
    other = None if other_source is None else SequenceModel.load(other_source.folder, length, None)
    columns = (TextColumn("[dim]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows = []
    with Progress(*columns, console=error_console, transient=True) as progress:

        def add(name: str, loaded: "SequenceModel", compared: "SequenceModel | None") -> None:
            task = progress.add_task(f"{name} {loaded.precision}", total=len(windows))
            quality = measure(loaded, windows, compared, lambda: progress.advance(task))
            rows.append(_Row(name, loaded.precision, loaded.record.byte_count, quality))

        if other_source is not None and other is not None:
            add(other_source.name, other, None)
        for precision in precisions:
            add(source.name, SequenceModel.load(source.folder, length, precision), other)
    return rows


def _record(folder: Path, rows: Sequence[_Row]) -> None:
    """The reference itself, which comes without a comparison, is left out."""
    from headrace.engine.evaluation.quality_record import RecordedQuality, write_record

    compared = [row for row in rows if row.quality.top1_agreement is not None]
    found = {row.precision: RecordedQuality.of(row.precision, row.quality) for row in compared}
    error_console.print(f"[dim]recorded in {write_record(folder, found)}", soft_wrap=True)


def _table(rows: Sequence[_Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("precision")
    for title in ("perplexity", "KL", "top-1", "weights MiB", "tok/s"):
        table.add_column(title, justify="right")
    for row in rows:
        quality = row.quality
        table.add_row(
            row.model,
            row.precision,
            f"{quality.perplexity:.3f}",
            "" if quality.kl_divergence is None else f"{quality.kl_divergence:.5f}",
            "" if quality.top1_agreement is None else f"{quality.top1_agreement:.1%}",
            f"{row.weight_bytes / MIB:.1f}",
            f"{quality.tokens_per_second:.0f}",
        )
    return table
