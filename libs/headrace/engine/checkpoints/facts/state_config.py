"""The facts about layers that keep a state of fixed size, in the place of keys and values or beside them."""

from dataclasses import dataclass
from typing import Protocol


class MixerFacts(Protocol):
    """Sizes of what a layer keeps of a sequence."""

    @property
    def tail_shape(self) -> tuple[int, int]:
        """Inputs of a causal convolution that the next token still sees: [taps - 1, channels]."""
        ...

    @property
    def memory_shape(self) -> tuple[int, int, int]:
        """Recurrent state: [heads, rows, columns]. A product of zero: there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A convolution between two gates (LFM2: Liquid AI, 2025). Its state is the last inputs alone."""

    channels: int
    width: int
    """Taps, the token itself included."""
    has_bias: bool

    @property
    def tail_shape(self) -> tuple[int, int]:
        return self.width - 1, self.channels

    @property
    def memory_shape(self) -> tuple[int, int, int]:
        return 0, 0, 0


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """A matrix for each head that forgets, and is corrected by each token: the gated delta rule (Yang et al., 2024), as
    in Qwen3-Next and Qwen3.5. Queries, keys and values are convolved before."""

    key_head_count: int
    value_head_count: int
    """Heads of values, and of the state. Consecutive ones share the query and key of a head."""
    key_size: int
    value_size: int
    width: int
    """Taps of the convolution, the token itself included."""
    groups_rows: bool
    """Whether checkpoints have the rows of each key head, of all kinds, one after the other. Otherwise each kind has a
    matrix of its own."""

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


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A matrix for each head that decays, and takes a product of each token in: Mamba-2 (Dao and Gu, 2024), as in
    Granite 4. What is taken in and what reads it is convolved before."""

    module: str
    """Name, within the layer, in checkpoints."""
    head_count: int
    head_size: int
    """Elements of a head's input and output."""
    state_size: int
    """Elements that a head's input is multiplied into."""
    group_count: int
    """Groups of consecutive heads that share the products by which they take in and read."""
    width: int
    """Taps of the convolution, the token itself included."""
    has_convolution_bias: bool
    has_bias: bool
    """Whether the products have biases."""
    norm_epsilon: float
    """Epsilon of the norm of outputs."""

    @property
    def inner_size(self) -> int:
        """Elements of the inputs of all heads."""
        return self.head_count * self.head_size

    @property
    def group_size(self) -> int:
        """Elements of each product of all groups."""
        return self.group_count * self.state_size

    @property
    def channels(self) -> int:
        """Elements that are convolved: inputs, and the two products."""
        return self.inner_size + 2 * self.group_size

    @property
    def tail_shape(self) -> tuple[int, int]:
        return self.width - 1, self.channels

    @property
    def memory_shape(self) -> tuple[int, int, int]:
        return self.head_count, self.state_size, self.head_size


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Layers that keep a state for each sequence."""

    layers: tuple[int, ...]
    """Layers that keep one, in order."""
    attention_layers: tuple[int, ...]
    """Layers that keep keys and values, in order."""
    mixer: MixerFacts

    @property
    def number_count(self) -> int:
        """Numbers in the states of all layers of one sequence."""
        taps, channels = self.mixer.tail_shape
        heads, rows, columns = self.mixer.memory_shape
        return len(self.layers) * (taps * channels + heads * rows * columns)
