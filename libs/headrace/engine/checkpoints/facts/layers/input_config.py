"""The facts about inputs that each layer has of its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputConfig:
    """Inputs of each layer beside the hidden states: a row of a table that tokens look up, and a product of their
    embeddings (Gemma 3n, 2025)."""

    vocabulary_size: int
    """Tokens in the table. Others have the row of token 0."""
    size: int
    """Elements of one layer's input."""

    def table_size(self, layer_count: int) -> int:
        """Returns the elements of the table, with a row of all layers' inputs for each token."""
        return self.vocabulary_size * self.size * layer_count
