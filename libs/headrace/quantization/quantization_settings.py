"""Settings for the quantization of a checkpoint's projections."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors.tree import ConfigError

Method = Literal["gptq", "awq", "rtn"]
WORD_BITS = 32
"""Bits per word of packed codes, along inputs and outputs."""


@dataclass(frozen=True, slots=True)
class QuantizationSettings:
    """Settings for quantizing each projection. Raises ConfigError if they are inconsistent."""

    method: Method = "gptq"
    """Quantization method. rtn rounds each weight to the nearest code and needs no text."""
    bits: Literal[4, 8] = 4
    group_size: int = 128
    """Inputs that share a scale."""
    symmetric: bool = False
    """Whether the middle code represents 0 everywhere. Some engines have fast kernels for such files only."""
    sequence_count: int = 64
    """Number of calibration sequences."""
    sequence_length: int = 256

    def __post_init__(self) -> None:
        if self.method == "awq" and (self.bits != 4 or self.symmetric):
            raise ConfigError("AWQ always has 4 bits and its own zero points: leave out --bits 8 and --symmetric")
        if self.group_size < self.per_word or self.group_size % self.per_word:
            raise ConfigError(
                f"Groups of {self.group_size} do not fill whole words: take a multiple of {self.per_word}"
            )

    @property
    def per_word(self) -> int:
        """Codes per word."""
        return WORD_BITS // self.bits
