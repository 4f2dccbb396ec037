"""Terms on which KV blocks travel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransferTerms:
    """Settings of the decision who computes a prompt."""

    min_token_count: int = 512
    """Fewest missing tokens of a prompt for which KV blocks travel from another worker."""
    assumed_rate: float = 1e9
    """Bytes per second at which KV blocks travel to a worker that has not measured it."""
