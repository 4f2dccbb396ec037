"""`headrace plan`: shows on which devices a model fits, how many requests fit at once, and how fast it should run."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from headrace.catalogue.catalogue import known_models
from headrace.cli.engine_parts import has_engine_parts, require_engine_parts, require_worker_parts
from headrace.cli.output import console, fail, print_json
from headrace.cli.precision_choice import UNKNOWN_QUALITY, PrecisionCandidate, PrecisionVerdict, judge
from headrace.cli.share_progress import ShareProgress
from headrace.engine.memory.host_cores import usable_core_count
from headrace.errors import ConfigError, HeadraceError
from headrace.supervisor.model_source import resolve

if TYPE_CHECKING:
    from headrace.evaluation.quality_record import RecordedQuality
    from headrace.planning.deployment import Deployment
    from headrace.planning.device_profile import DeviceProfile

MIB, GIB = 1 << 20, 1 << 30
SMALL_BYTES = GIB // 2
"""Size in float32, in bytes, up to which models are measured within a minute or so."""
THIS_MACHINE = "this machine"
REFERENCE = "float32"
"""Precision with which the others are compared."""


def plan(
    model: str,
    *,
    on: tuple[str, ...] = (),
    context: int = 2048,
    batch: tuple[int, ...] = (1, 8, 32),
    profiles: Path | None = None,
    quality_floor: float | None = None,
    measure: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Prints memory, predicted speed and predicted price on this machine and every device profile, in each precision.

    Speeds are predicted from the model's shape and the devices' peak rates: the assumptions are printed below.

    Parameters
    ----------
    model
        A folder, a GGUF file, headrace-demo, a hub id, or a name from headrace models list. Its weights are not read.
    on
        A device profile, such as h200, or several cards that share the model, such as 2xl4. Default: all, one each.
    context
        Tokens per request, prompt plus output.
    batch
        Requests at once for which the speed is predicted.
    profiles
        A folder of device profiles; default: deploy/profiles of the checkout.
    quality_floor
        Choose the smallest precision whose top-1 agreement with the model in float32 is at least this, such as 0.97,
        and that fits. Figures are the ones recorded by headrace eval --record; those of small models are measured.
    measure
        Measure models without recorded figures, however long it takes.
    json
        Print one JSON object.
    """
    _check(context, batch, quality_floor, as_json=json)
    require_worker_parts()
    source = _source(model)
    if measure:
        require_engine_parts()
    deployments = list(_deployments(source, on, profiles))
    rows = [_row(deployment, context, batch) for deployment in deployments]
    assumptions = list(dict.fromkeys(line for each in deployments for line in each.assumptions()))
    if quality_floor is None:
        if json:
            print_json({"context": context, "rows": [asdict(row) for row in rows], "assumptions": assumptions})
            return
        _print_predictions(deployments, rows, context, batch, in_full=bool(on))
        return
    verdicts = _judge(rows, _qualities(source, rows, measure), quality_floor)
    if json:
        judged = [asdict(row) | asdict(verdict) for row, verdict in zip(rows, verdicts, strict=True)]
        print_json({"context": context, "quality_floor": quality_floor, "rows": judged})
        return
    console.print(_judged_table(rows, context, verdicts))
    if any(verdict.reason == UNKNOWN_QUALITY for verdict in verdicts):
        console.print(f"Measure with: {_how_to_measure(source, model)}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Row:
    """One device with the model in one precision."""

    device: str
    memory_bytes: int
    precision: str
    weight_bytes: int
    kv_bytes_per_token: int
    state_bytes: int
    """States of a sequence, in models whose layers keep some."""
    kv_token_count: int
    """Tokens whose KV fits beside the weights. 0: the model does not fit."""
    request_count: int
    """Full-context requests whose KV fits beside the weights."""
    token_rates: list[float | None]
    """Predicted output tokens per second for each batch; None where it does not fit."""
    prices_per_million: list[float | None]
    """Predicted price of a million output tokens for each batch."""
    prefill_seconds: float | None
    """Predicted time of a prompt of the context's length, alone."""


def _check(context: int, batch: Sequence[int], quality_floor: float | None, *, as_json: bool) -> None:
    if context < 1:
        fail("--context must be at least 1", as_json)
    if min(batch) < 1:
        fail("--batch must be at least 1", as_json)
    if quality_floor is not None and not 0 <= quality_floor <= 1:
        fail("--quality-floor must be between 0 and 1: the share of tokens that stay the same", as_json)


def _source(model: str) -> Path:
    """Returns a folder with config.json: of models of the catalogue no more is needed."""
    known = known_models().get(model)
    try:
        return resolve([model])[0].folder
    except ConfigError:
        if known is None:
            raise
        return known.shape_folder


def _deployments(source: Path, on: Sequence[str], folder: Path | None) -> "Iterator[Deployment]":
    from headrace.engine.checkpoints.model_config import read_model_config
    from headrace.planning.deployment import Deployment, parse_devices
    from headrace.planning.device_profile import PROFILES, list_profiles
    from headrace.planning.footprint import list_footprints

    profiles = list_profiles(folder or PROFILES)
    chosen = [parse_devices(text, profiles) for text in on] or [
        (profile, 1) for profile in (_this_machine(), *profiles)
    ]
    config = read_model_config(source)
    for device, count in chosen:
        for footprint in list_footprints(config, device.kind):
            yield Deployment(footprint, device, count)


def _this_machine() -> "DeviceProfile":
    """Measures this machine where there are kernels to measure it with, in half a second."""
    from headrace.planning.device_profile import Assumptions, DeviceProfile

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assumed = Assumptions(origin="its rates are measured now")
    try:
        from headrace.engine.kernels.choice.machine_rates import measure_rates

        rates = measure_rates(usable_core_count())
    except (ImportError, HeadraceError):
        return DeviceProfile(THIS_MACHINE, "cpu", memory, 0.0, {"float32": 0.0}, "float32", 0.0, assumed=assumed)
    arithmetic = {"float32": rates.float_rate, "int8": rates.integer_rate}
    return DeviceProfile(
        THIS_MACHINE, "cpu", memory, rates.memory_bandwidth, arithmetic, "float32", 0.0, assumed=assumed
    )


def _row(deployment: "Deployment", context: int, batch: Sequence[int]) -> _Row:
    return _Row(
        deployment.name,
        deployment.memory_bytes,
        deployment.footprint.precision,
        deployment.footprint.weight_bytes,
        deployment.footprint.kv_bytes_per_token,
        deployment.footprint.state_bytes,
        deployment.kv_token_count,
        deployment.request_count(context),
        [deployment.token_rate(size, context) for size in batch],
        [deployment.price_per_million(size, context) for size in batch],
        deployment.prefill_seconds(context),
    )


def _qualities(source: Path, rows: list[_Row], measure: bool) -> "Mapping[str, RecordedQuality]":
    """Recorded qualities, plus ones that this machine can measure in reasonable time, or at all if `measure` is set. It
    measures nothing without torch."""
    from headrace.evaluation.quality_record import read_record

    known = read_record(source)
    sizes = {row.precision: row.weight_bytes for row in rows}
    missing = [precision for precision in sizes if precision not in known]
    if not missing or REFERENCE not in sizes or not (measure or sizes[REFERENCE] <= SMALL_BYTES):
        return known
    if not has_engine_parts():
        return known
    from headrace.evaluation.precision_quality import measure_precisions

    with ShareProgress() as progress:
        return {**known, **measure_precisions(source, missing, lambda share: progress.report("measuring", share))}


def _judge(rows: list[_Row], qualities: "Mapping[str, RecordedQuality]", floor: float) -> list[PrecisionVerdict]:
    """Returns one verdict per row, device by device."""
    verdicts: list[PrecisionVerdict] = []
    for _, group in itertools.groupby(rows, key=lambda row: row.device):
        candidates = [PrecisionCandidate(row.precision, row.weight_bytes, row.request_count) for row in group]
        verdicts += judge(candidates, qualities, floor)
    return verdicts


def _how_to_measure(source: Path, model: str) -> str:
    """Returns the command that measures a model. A quantized checkpoint does not record its source, so only its owner
    can name it."""
    from headrace.engine.checkpoints.model_config import read_model_config

    if read_model_config(source).quantization is None:
        return f"headrace plan {model} --measure --quality-floor ..."
    return f"headrace eval {model} --reference WHAT-IT-WAS-MADE-FROM --record"


def _table(rows: list[_Row], context: int, batch: Sequence[int]) -> Table:
    rates = [f"t/s of {size}" for size in batch]
    table = _empty_table("GiB", f"requests of {context}", "first token", *rates, "price/M")
    for row in rows:
        prices = [price for price in row.prices_per_million if price is not None]
        table.add_row(
            row.device,
            row.precision,
            f"{row.weight_bytes / GIB:,.2f}",
            f"{row.request_count:,}" if row.request_count else "does not fit",
            _duration(row.prefill_seconds),
            *(_figure(rate, ",.0f") for rate in row.token_rates),
            _figure(min(prices, default=None), ",.2f"),
        )
    return table


def _print_predictions(
    deployments: "Sequence[Deployment]", rows: list[_Row], context: int, batch: Sequence[int], *, in_full: bool
) -> None:
    if in_full:
        for deployment, row in zip(deployments, rows, strict=True):
            _print_page(deployment, row, context, batch)
        return
    console.print(_table(rows, context, batch))
    console.print(
        "[dim]Predicted, not measured: the first token of such a prompt, tokens per second of so many requests, and "
        "the price of a million tokens at the largest batch that fits.[/]",
        soft_wrap=True,
    )
    console.print("[dim]--on DEVICE prints what it assumes, also for several cards, such as --on 2xl4[/]")


def _print_page(deployment: "Deployment", row: _Row, context: int, batch: Sequence[int]) -> None:
    """Prints everything about one deployment, each prediction with what it assumes."""
    fits = "fits" if row.request_count else "does not fit"
    console.print(f"[bold]{row.device}[/], {row.precision}: {fits}", soft_wrap=True)
    console.print(
        f"  weights {row.weight_bytes / GIB:,.2f} of {row.memory_bytes / GIB:,.1f} GiB; room for the keys and values "
        f"of {row.kv_token_count:,} tokens, or {row.request_count:,} requests of {context}",
        soft_wrap=True,
    )
    if row.request_count:
        console.print(f"  first token of a prompt of {context} alone: {_duration(row.prefill_seconds)}, predicted")
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for title in ("  at once", "tok/s", "tok/s each", "price per million"):
            table.add_column(title, justify="right", no_wrap=True)
        for size, rate, price in zip(batch, row.token_rates, row.prices_per_million, strict=True):
            each = None if rate is None else rate / size
            table.add_row(
                str(size), _figure(rate, ",.0f", "does not fit"), _figure(each, ",.1f"), _figure(price, ",.2f")
            )
        console.print(table)
    for line in deployment.assumptions():
        console.print(f"  [dim]assumed: {line}[/]", soft_wrap=True)


def _judged_table(rows: list[_Row], context: int, verdicts: list[PrecisionVerdict]) -> Table:
    table = _empty_table("memory GiB", "weights MiB", f"requests of {context}", "top-1")
    table.add_column("choice", no_wrap=True)
    for row, verdict in zip(rows, verdicts, strict=True):
        requests = f"{row.request_count:,}" if row.request_count else "does not fit"
        memory = [f"{row.memory_bytes / GIB:.1f}", f"{row.weight_bytes / MIB:,.1f}"]
        table.add_row(row.device, row.precision, *memory, requests, *_verdict_cells(verdict))
    return table


def _empty_table(*titles: str) -> Table:
    from headrace.planning.deployment import RESERVE

    caption = f"{RESERVE:.0%} of the memory is left for everything else."
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for title in ("device", "precision"):
        table.add_column(title, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right")
    return table


def _figure(figure: float | None, form: str, otherwise: str = "") -> str:
    return otherwise if figure is None else format(figure, form)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _verdict_cells(verdict: PrecisionVerdict) -> tuple[str, str]:
    agreement = "" if verdict.top1_agreement is None else f"{verdict.top1_agreement:.1%}"
    return agreement, f"[bold green]{verdict.reason}[/]" if verdict.is_chosen else verdict.reason
