"""The Protocol of a head that drafts from the hidden states of the model that it drafts for."""

from typing import Protocol

from headrace.engine.step.auxiliary.auxiliary_states import Floats
from headrace.engine.step.step_arrays import StepArrays


class DraftHead(Protocol):
    max_len: int
    """Tokens of the longest context."""

    def combine(self, states: Floats) -> Floats:
        """Maps auxiliary states [tokens, layers x hidden] to the inputs of `compute` [tokens, hidden]."""
        ...

    def compute(self, arrays: StepArrays, states: Floats) -> Floats:
        """Returns the hidden states [tokens, hidden] behind each token of a step, of which `states` [tokens, hidden]
        are those before it, valid until the next call. Writes the tokens' keys and values."""
        ...

    def logits(self, states: Floats) -> Floats:
        """Returns logits [rows, vocabulary] of the tokens that may follow."""
        ...

    def sleep(self) -> None:
        """Frees the memory of keys and values. Nothing can be computed until `wake`."""
        ...

    def wake(self) -> None:
        """Allocates the memory of keys and values again, empty."""
        ...
