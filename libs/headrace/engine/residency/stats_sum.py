"""Counts of an engine that was dropped and loaded again: they continue where they were."""

from dataclasses import fields, replace

from headrace.engine.contract.model_cost import StepWork
from headrace.engine.contract.request import EngineStats

_COUNTS = (
    "step_count",
    "preemption_count",
    "prompt_token_count",
    "output_token_count",
    "prefix_hit_token_count",
    "draft_token_count",
    "accepted_token_count",
)
"""Fields of EngineStats that only grow."""

NO_STATS = EngineStats(0, 0, 0, 0, 0, 0, 0, 0, 0)


def continued(past: EngineStats, stats: EngineStats) -> EngineStats:
    """Returns `stats` with its counts added to those of `past`, an earlier engine of the same model."""
    counts = {name: getattr(past, name) + getattr(stats, name) for name in _COUNTS}
    sums = {part.name: getattr(past.work, part.name) + getattr(stats.work, part.name) for part in fields(StepWork)}
    return replace(stats, **counts, work=StepWork(**sums))
