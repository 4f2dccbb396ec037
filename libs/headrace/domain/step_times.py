"""Times of a worker's steps, as a sum of what a step computes."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step: a constant, and an amount for each unit of its work."""

    base_seconds: float
    """Seconds that any step takes: weights are read, kernels are launched."""
    prompt_token_seconds: float = 0.0
    """Seconds for each token of a prompt that it computes."""
    sequence_seconds: float = 0.0
    """Seconds for each sequence that gets a token."""
    context_token_seconds: float = 0.0
    """Seconds for each token of the KV cache that it reads."""

    def seconds(self, prompt_tokens: float, sequences: float, context_tokens: float) -> float:
        """Predicts the seconds of a step."""
        return (
            self.base_seconds
            + prompt_tokens * self.prompt_token_seconds
            + sequences * self.sequence_seconds
            + context_tokens * self.context_token_seconds
        )

    def prompt_tokens_within(self, seconds: float, sequences: float, context_tokens: float) -> float:
        """Returns the number of prompt tokens beside which a step takes so many seconds for the sequences that get a
        token; or twice as long as without prompts, if that is more: no prompt waits until the last of them ends."""
        if self.prompt_token_seconds <= 0.0:
            return math.inf
        without = self.seconds(0.0, sequences, context_tokens)
        return max(seconds - without, without) / self.prompt_token_seconds
