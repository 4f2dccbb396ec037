"""The facts about the gated delta rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """A matrix for each head that forgets, and is corrected by each token: the gated delta rule (Yang et al., 2024), as
    in Qwen3-Next and Qwen3.5. Queries, keys and values are convolved before."""

    key_head_count: int
    value_head_count: int
    """Heads of values, and of the state. Several share the query and key of a head."""
    key_size: int
    value_size: int
    width: int
    """Taps of the convolution, the token itself included."""
    groups_inputs: bool = False
    """Whether checkpoints have the queries, keys, values and gates of each key head one after the other, in one matrix.
    Otherwise gates have a matrix of their own."""
    groups_rates: bool = False
    """Whether checkpoints have the two rates of each key head one after the other, in one matrix. Otherwise each rate
    has a matrix of its own."""
    tiles_heads: bool = False
    """Whether value heads that share a key head stand as far apart as there are key heads. Otherwise they are
    consecutive."""

    @property
    def key_row_count(self) -> int:
        """Elements of the keys of all heads."""
        return self.key_head_count * self.key_size

    @property
    def value_row_count(self) -> int:
        """Elements of the values of all heads."""
        return self.value_head_count * self.value_size

    @property
    def channels(self) -> int:
        """Elements that are convolved: queries, keys and values."""
        return 2 * self.key_row_count + self.value_row_count

    @property
    def tail_shape(self) -> tuple[int, int]:
        return self.width - 1, self.channels

    @property
    def memory_shape(self) -> tuple[int, int, int]:
        return self.value_head_count, self.key_size, self.value_size
