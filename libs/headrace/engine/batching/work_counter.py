"""Count of the work that plans ask of a model."""

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.contract.model_cost import StepWork


class WorkCounter:
    """Adds plans up. A few integers for each chunk; their cost is computed on demand, elsewhere."""

    def __init__(self, window: int | None) -> None:
        """`window`: tokens that a query sees at most, itself included. None: all before it."""
        self._window = window
        self._step_count = self._token_count = self._read_token_count = self._pair_count = 0

    def count(self, plan: StepPlan) -> None:
        """Counts one step."""
        self._step_count += bool(plan.chunks)
        self._token_count += plan.token_count
        for chunk in plan.chunks:
            context, mean = chunk.computed_end, (chunk.start + 1 + chunk.computed_end) // 2
            if self._window is not None:
                # A chunk reads what its first query sees, and itself.
                context, mean = min(context, self._window + chunk.token_count - 1), min(mean, self._window)
            self._read_token_count += context
            self._pair_count += chunk.token_count * mean

    @property
    def work(self) -> StepWork:
        """Work so far."""
        return StepWork(self._step_count, self._token_count, self._read_token_count, self._pair_count)
