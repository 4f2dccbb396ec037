"""Protocol of a sampler, which chooses the next token of each row from its logits. Rows never influence each other.

Order of operations: grammar; repetition, frequency and presence penalties, logit bias, ban of stop ids below
`min_tokens`; then either the most likely token, or temperature, top-k, top-p, min-p and one draw. Log-probabilities
are those of the raw logits.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import TokenLogprob

Logits = Any
"""Logits fp32 [rows, vocabulary], of the library that the model computes with."""


class Sampler(Protocol):
    """Operations on the logits of one kind of runner. Leaves logits as they are."""

    def likeliest(self, logits: Logits) -> tuple[list[int], list[float]]:
        """Finds the most likely token of each row, the first of equals; and its logit, which is NaN where any of the
        row is."""
        ...

    def sample(self, logits: Logits, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        """Chooses one token id per row. `best` is what `likeliest` found, where that is known."""
        ...

    def logprobs(self, logits: Logits, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        """Computes the log-probability of `token_ids`, and of the `top_counts` strongest tokens, one per row."""
        ...

    def in_host_memory(self, logits: Logits) -> NDArray[np.float32]:
        """Returns the logits as a numpy array."""
        ...

    def fit(self, logits: Logits, vocabulary_size: int) -> Logits:
        """Fits logits to a vocabulary of another size: with tokens that are never chosen, or without the last ones."""
        ...
