"""The Protocol of steps that are computed by replaying what was captured of an earlier one."""

from typing import Protocol

from torch import Tensor

from headrace.engine.step.step_arrays import StepArrays


class StepGraphs(Protocol):
    """Steps of a decoder that are replayed instead of launched operation by operation."""

    def capture(self) -> None:
        """Captures steps over the KV cache as it lies now. Before it, and after `forget`, no step is taken."""
        ...

    def takes(self, arrays: StepArrays) -> bool:
        """Whether a step can be replayed. All others are computed as usual."""
        ...

    def run(self, arrays: StepArrays) -> Tensor:
        """Returns the logits fp32 [rows, vocabulary] of a step that it takes, valid until the next one."""
        ...

    def forget(self) -> None:
        """Drops what was captured: it reads and writes memory that is about to be freed."""
        ...
