"""The facts about a short convolution between two gates."""

from dataclasses import dataclass


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
