"""The facts about attention whose layers differ (Gemma 3n, 2025; Gemma 4, 2026)."""

from dataclasses import dataclass

from headrace.engine.checkpoints.facts.layers.head_sizes import HeadSizes


@dataclass(frozen=True, slots=True)
class VariedAttention:
    """Attention whose layers have heads of several sizes, or share keys and values. Each query, key and value head is
    normalized before rotation, values without a weight."""

    heads: tuple[HeadSizes, ...]
    """Heads of each layer."""
    sources: tuple[int, ...]
    """Layer whose keys and values each layer reads: itself, or one before it with heads of the same sizes."""
    keys_as_values: frozenset[int] = frozenset()
    """Layers whose values are the products that make keys, before those are normalized."""

    def has_keys(self, index: int) -> bool:
        """Whether a layer computes keys and values of its own."""
        return self.sources[index] == index
