"""Page of the workers that schedulers want, and of their last decisions."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToDict
from rich.markup import escape
from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.v1.scheduler_pb2 import ModelDemand, ScalingDecision

DECISION_COUNT = 10
"""Newest decisions shown of each model."""


def show_scaling(demands: Iterable[ModelDemand], *, as_json: bool) -> None:
    """Prints the demand for workers of each model, as the scheduler that leads it has found it."""
    leading = _leading(demands)
    if as_json:
        print_json({"models": [_as_dict(demand) for demand in leading]})
        return
    if not leading:
        console.print("No model is known yet: no worker was seen, nor any request.")
    for demand in leading:
        _print(demand)


def _leading(demands: Iterable[ModelDemand]) -> list[ModelDemand]:
    found = {demand.model: demand for demand in sorted(demands, key=lambda demand: demand.fence)}
    return [found[model] for model in sorted(found)]


def _print(demand: ModelDemand) -> None:
    wanted = str(demand.wanted_worker_count) if demand.HasField("wanted_worker_count") else "unknown"
    unsure = f", {demand.unsure_worker_count} unsure" if demand.unsure_worker_count else ""
    console.print(
        f"[b]{escape(demand.model)}[/]: {wanted} wanted, {demand.worker_count} serving{unsure}; "
        f"a new one is ready in about {demand.start_seconds:.0f} s",
        soft_wrap=True,
    )
    for need in demand.needs:
        console.print(f"  {need.worker_count} for {need.signal}: {escape(need.text)}", soft_wrap=True)
    if demand.decisions:
        console.print(_table(list(demand.decisions)[-DECISION_COUNT:]))


def _table(decisions: Iterable[ScalingDecision]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("", "ago", "workers", "why", "otherwise"):
        table.add_column(title, overflow="fold")
    for one in decisions:
        change = f"{one.former_count} → {one.new_count}"
        table.add_row("", _ago(one.age_seconds), change, escape(one.reason), escape(one.otherwise))
    return table


def _ago(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h"


def _as_dict(demand: ModelDemand) -> dict[str, Any]:
    return dict(MessageToDict(demand, preserving_proto_field_name=True, always_print_fields_with_no_presence=True))
