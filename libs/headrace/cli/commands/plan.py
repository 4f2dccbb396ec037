"""`headrace plan`: shows on which devices a model fits, and how many requests fit at once."""

import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from headrace.cli.engine_parts import require_engine_parts
from headrace.cli.output import console, fail, print_json
from headrace.cli.precision_choice import UNKNOWN_QUALITY, Candidate, Verdict, judge
from headrace.cli.share_progress import ShareProgress
from headrace.errors import ConfigError
from headrace.supervisor.model_source import resolve

if TYPE_CHECKING:
    from headrace.offline.evaluation.quality_record import RecordedQuality

MIB, GIB = 1 << 20, 1 << 30
PROFILES = Path(__file__).parents[4] / "deploy" / "profiles"
"""Folder of the profiles. Only a checkout has it; installed packages do not."""
RESERVE = 0.1
"""Fraction of a device's memory that is left for activations and everything else."""
SMALL_BYTES = GIB // 2
"""Size in float32, in bytes, up to which models are measured within a minute or so."""


def plan(
    model: str,
    *,
    context: int = 2048,
    profiles: Path | None = None,
    quality_floor: float | None = None,
    measure: bool = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Prints the memory for weights and KV, on this machine and every device profile, in each precision.

    Parameters
    ----------
    model
        A folder, a GGUF file, headrace-demo, or a hub id. Its weights are not read.
    context
        Tokens per request, prompt plus output.
    profiles
        A folder of device profiles; default: deploy/profiles of the checkout.
    quality_floor
        Choose the smallest precision whose top-1 agreement with the model in float32 is at least this, such as 0.97,
        and that fits. Figures are those that headrace eval --record kept; those of small models are measured.
    measure
        Measure models without recorded figures, however long it takes.
    json
        Print one JSON object.
    """
    if context < 1:
        fail("--context must be at least 1", json)
    if quality_floor is not None and not 0 <= quality_floor <= 1:
        fail("--quality-floor must be between 0 and 1: the share of tokens that stay the same", json)
    require_engine_parts()
    source = resolve([model])[0].folder
    rows = [row for device in _devices(profiles) for row in _rows(source, device, context)]
    if quality_floor is None:
        if json:
            print_json({"context": context, "rows": [asdict(row) for row in rows]})
        else:
            console.print(_table(rows, context))
        return
    verdicts = _judge(rows, _qualities(source, rows, measure), quality_floor)
    if json:
        judged = [asdict(row) | asdict(verdict) for row, verdict in zip(rows, verdicts, strict=True)]
        print_json({"context": context, "quality_floor": quality_floor, "rows": judged})
        return
    console.print(_table(rows, context, verdicts))
    if any(verdict.reason == UNKNOWN_QUALITY for verdict in verdicts):
        console.print(f"Measure with: {_how_to_measure(source, model)}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Device:
    """A device that a model could run on."""

    name: str
    kind: str
    """Kind of device: cpu or cuda."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One device with the model in one precision."""

    device: str
    memory_bytes: int
    precision: str
    weight_bytes: int
    kv_bytes_per_token: int
    request_count: int
    """Full-context requests whose KV fits beside the weights. 0: the model does not fit."""


def _devices(folder: Path | None) -> Iterator[_Device]:
    yield _Device("this machine", "cpu", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of device profiles")
    for path in sorted((folder or PROFILES).glob("*.toml")):
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
            yield _Device(str(raw["name"]), str(raw["device"]), int(raw["memory_bytes"]))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is not a device profile: {error!r}") from error


def _rows(source: Path, device: _Device, context: int) -> Iterator[_Row]:
    from headrace.offline.evaluation.footprint import list_footprints

    for footprint in list_footprints(source, device.kind):
        left = device.memory_bytes * (1 - RESERVE) - footprint.weight_bytes
        yield _Row(
            device.name,
            device.memory_bytes,
            footprint.precision,
            footprint.weight_bytes,
            footprint.kv_bytes_per_token,
            max(0, int(left // (footprint.kv_bytes_per_token * context))),
        )


def _qualities(source: Path, rows: list[_Row], measure: bool) -> "Mapping[str, RecordedQuality]":
    """Recorded qualities, plus those that this machine can measure in reasonable time, or at all if `measure` is
    set."""
    from headrace.offline.evaluation.precision_quality import REFERENCE, measure_precisions
    from headrace.offline.evaluation.quality_record import read_record

    known = read_record(source)
    sizes = {row.precision: row.weight_bytes for row in rows}
    missing = [precision for precision in sizes if precision not in known]
    if not missing or REFERENCE not in sizes or not (measure or sizes[REFERENCE] <= SMALL_BYTES):
        return known
    with ShareProgress() as progress:
        return {**known, **measure_precisions(source, missing, lambda share: progress.report("measuring", share))}


def _judge(rows: list[_Row], qualities: "Mapping[str, RecordedQuality]", floor: float) -> list[Verdict]:
    """Returns one verdict per row, device by device."""
    verdicts: list[Verdict] = []
    for _, group in itertools.groupby(rows, key=lambda row: row.device):
        candidates = [Candidate(row.precision, row.weight_bytes, row.request_count) for row in group]
        verdicts += judge(candidates, qualities, floor)
    return verdicts


def _how_to_measure(source: Path, model: str) -> str:
    """Returns the command that measures a model. A quantized checkpoint does not record its source, so only its owner
    can name it."""
    from headrace.engine.checkpoints.model_config import read_model_config

    if read_model_config(source).quantization is None:
        return f"headrace plan {model} --measure --quality-floor ..."
    return f"headrace eval {model} --reference WHAT-IT-WAS-MADE-FROM --record"


def _table(rows: list[_Row], context: int, verdicts: list[Verdict] | None = None) -> Table:
    caption = f"{RESERVE:.0%} of the memory is left for everything else."
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for title in ("device", "precision"):
        table.add_column(title, no_wrap=True)
    titles = ["memory GiB", "weights MiB", "KV KiB/token", f"requests of {context}"]
    for title in titles if verdicts is None else [titles[0], titles[1], titles[3], "top-1"]:
        table.add_column(title, justify="right")
    if verdicts is not None:
        table.add_column("choice", no_wrap=True)
    for index, row in enumerate(rows):
        requests = f"{row.request_count:,}" if row.request_count else "does not fit"
        memory = [f"{row.memory_bytes / GIB:.1f}", f"{row.weight_bytes / MIB:,.1f}"]
        if verdicts is None:
            cells = [*memory, f"{row.kv_bytes_per_token / 1024:.1f}", requests]
        else:
            cells = [*memory, requests, *_verdict_cells(verdicts[index])]
        table.add_row(row.device, row.precision, *cells)
    return table


def _verdict_cells(verdict: Verdict) -> tuple[str, str]:
    agreement = "" if verdict.top1_agreement is None else f"{verdict.top1_agreement:.1%}"
    return agreement, f"[bold green]{verdict.reason}[/]" if verdict.is_chosen else verdict.reason
