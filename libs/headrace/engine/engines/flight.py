"""A step that was launched and is not recorded yet."""

from dataclasses import dataclass

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.step.launching.launched_step import LaunchedStep


@dataclass(frozen=True, slots=True)
class Flight:
    """A plan, and the step that computes it."""

    plan: StepPlan
    step: LaunchedStep
