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
