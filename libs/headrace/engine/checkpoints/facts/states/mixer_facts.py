"""The Protocol of the sizes of what a layer keeps of a sequence."""

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
