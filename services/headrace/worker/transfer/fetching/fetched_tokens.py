"""Tokens of a prompt whose KV blocks were brought here before its request began."""

from dataclasses import dataclass
from typing import Literal

Tier = Literal["memory", "disk", "worker", "store"]
"""Kind of place that KV blocks come from."""


@dataclass(slots=True)
class FetchedTokens:
    """Numbers of tokens, by the place that had their blocks."""

    disk: int = 0
    worker: int = 0
    store: int = 0

    def add(self, tier: Tier, token_count: int) -> None:
        """Counts tokens from a place. Those in memory were not brought."""
        match tier:
            case "disk":
                self.disk += token_count
            case "worker":
                self.worker += token_count
            case "store":
                self.store += token_count
