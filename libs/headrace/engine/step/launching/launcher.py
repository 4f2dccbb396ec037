"""The Protocol of a model whose steps are launched one ahead."""

from typing import Protocol

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.step.launching.launched_step import LaunchedStep


class Launcher(Protocol):
    """Model on a device that works while the host does, and keeps the tokens that it chose for its next step."""

    def launch(self, plan: StepPlan) -> LaunchedStep:
        """Launches a step that computes all chunks, writes their KV and chooses tokens, and does not wait for it.

        All sequences of the plan run ahead. Tokens that they expect are those of the step launched last.
        """
        ...
