"""Scaling of rotary frequencies, which extends a model's context beyond its first training length."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class RopeScaling(Protocol):
    @property
    def attention_factor(self) -> float:
        """Factor applied to cosines and sines."""
        ...

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        """Radians per position [rotary_size / 2], for contexts of at most `max_len` tokens."""
        ...


def plain_frequencies(rotary_size: int, theta: float) -> Floats:
    """Returns theta^(-2i / rotary_size) for pair i (RoFormer, Su et al., 2021)."""
    exponents = np.arange(0, rotary_size, 2, dtype=np.float32) / np.float32(rotary_size)
    return _fp32(1.0 / np.float32(theta) ** exponents)


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Divides positions by `factor` (Chen et al., 2023)."""

    factor: float

    @property
    def attention_factor(self) -> float:
        return 1.0

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        return _fp32(plain_frequencies(rotary_size, theta) / self.factor)


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Lowers the low rotary frequencies (Llama 3 herd of models, 2024)."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_max_len: int

    @property
    def attention_factor(self) -> float:
        return 1.0

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        """Divides low frequencies by the factor, keeps high ones, and interpolates those between."""
        frequencies = plain_frequencies(rotary_size, theta)
        wavelengths = 2 * math.pi / frequencies
        low_wavelength = self.original_max_len / self.low_frequency_factor
        high_wavelength = self.original_max_len / self.high_frequency_factor
        # Llama 4 has no ramp: both bounds are the same, and no wavelength is between them.
        width = (self.high_frequency_factor - self.low_frequency_factor) or 1.0
        smooth = (self.original_max_len / wavelengths - self.low_frequency_factor) / width
        between = (1 - smooth) * frequencies / self.factor + smooth * frequencies
        scaled = np.where(wavelengths > low_wavelength, frequencies / self.factor, between)
        return _fp32(np.where(wavelengths < high_wavelength, frequencies, scaled))


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Interpolates the pairs that rotate few times within the trained length, keeps the others (Peng et al., 2023)."""

    factor: float
    original_max_len: int
    attention_factor: float
    fast_turn_count: float
    """Number of rotations within the trained length above which a pair is kept."""
    slow_turn_count: float
    """Number of rotations within the trained length below which a pair is interpolated."""
    truncates: bool
    """Whether the boundaries between kept, mixed and interpolated pairs are rounded to whole pairs."""

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        kept = plain_frequencies(rotary_size, theta)
        low, high = (self._pair_that_turns(count, rotary_size, theta) for count in self._turn_counts())
        if self.truncates:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rotary_size - 1)
        width = high - low or 0.001
        share = ((np.arange(rotary_size // 2, dtype=np.float32) - low) / width).clip(0, 1)
        return _fp32(kept / self.factor * share + kept * (1 - share))

    def _turn_counts(self) -> tuple[float, float]:
        return self.fast_turn_count, self.slow_turn_count

    def _pair_that_turns(self, count: float, rotary_size: int, theta: float) -> float:
        """Returns the fractional index of the pair that rotates `count` times within the trained length."""
        return rotary_size * math.log(self.original_max_len / (count * 2 * math.pi)) / (2 * math.log(theta))


@dataclass(frozen=True, slots=True)
class LongRopeScaling:
    """One searched factor per pair, with one set for short and one for long contexts (Ding et al., 2024).

    Switching sets when a context grows past `original_max_len` would mean recomputing all of its keys. So the engine
    chooses one set at load: the short one if its contexts end at `original_max_len`, otherwise the long one.
    """

    short_factors: tuple[float, ...]
    long_factors: tuple[float, ...]
    original_max_len: int
    attention_factor: float

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        factors = self.long_factors if max_len > self.original_max_len else self.short_factors
        return _fp32(plain_frequencies(rotary_size, theta) / np.array(factors, np.float32))


@dataclass(frozen=True, slots=True)
class ProportionalScaling:
    """Rotates the first pairs of a head alone, at the frequencies that they have where all rotate (Gemma 4, 2026)."""

    share: float
    """Share of the pairs that rotate."""
    factor: float = 1.0
    """Number that frequencies are divided by."""

    @property
    def attention_factor(self) -> float:
        return 1.0

    def frequencies(self, rotary_size: int, theta: float, max_len: int) -> Floats:
        frequencies = plain_frequencies(rotary_size, theta) / np.float32(self.factor)
        frequencies[int(self.share * rotary_size // 2) :] = 0
        return _fp32(frequencies)


def _fp32(values: NDArray[Any]) -> Floats:
    return values.astype(np.float32, copy=False)
