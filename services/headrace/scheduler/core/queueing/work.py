"""Tokens for which a request has to be computed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """Predicted tokens of one request, or of several."""

    prompt_tokens: float = 0.0
    """Tokens of prompts that no worker holds."""
    output_tokens: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.prompt_tokens + other.prompt_tokens, self.output_tokens + other.output_tokens)

    def times(self, share: float) -> "Work":
        """Returns a share of the work."""
        return Work(self.prompt_tokens * share, self.output_tokens * share)
