"""The Protocol of a model with its KV cache."""

from typing import Protocol

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.step.sampler import Sampler
from headrace.engine.step.step_logits import StepLogits


class Runner(Protocol):
    """Model that computes logits, and says what chooses tokens from them."""

    @property
    def sampler(self) -> Sampler: ...

    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan wants, until the next call."""
        ...

    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content is not to be trusted."""
        ...

    def sleep(self) -> None:
        """Gives the memory of the KV cache back. Nothing can be run until `wake`."""
        ...

    def wake(self) -> None:
        """Takes memory for the KV cache again. It is empty."""
        ...
