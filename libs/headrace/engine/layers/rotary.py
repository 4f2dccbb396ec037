"""Rotary position embedding (RoFormer, Su et al., 2021) with the two halves of a head as pairs, as in Llama files."""

import math

import torch
from torch import Tensor

from headrace.engine.loader.model_config import Llama3Scaling, ModelConfig


class RotaryTable:
    """Cosines and sines for every position, computed once in fp32.

    They cover all heads of a fused query, key and value projection. Values turn by angle zero, which leaves them as
    they are and keeps them beside their keys in memory, ready to be written to the cache together.
    """

    def __init__(self, config: ModelConfig, max_len: int, dtype: torch.dtype, device: torch.device) -> None:
        frequencies = _frequencies(config.head_size, config.rope_theta, config.rope_scaling)
        angles = torch.arange(max_len, dtype=torch.float32)[:, None] * frequencies
        cosine, sine = angles.cos(), angles.sin()
        self._cosine = torch.stack([cosine, cosine], dim=1)[:, None].to(device, dtype)  # [len, 1, 2, head/2]
        self._sine = torch.stack([-sine, sine], dim=1)[:, None].to(device, dtype)
        self._turning_count = config.head_count + config.kv_head_count
        self._resting_count = config.kv_head_count

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines [tokens, heads, 2, head/2] for `positions` [tokens]."""
        return self._for_all_heads(self._cosine, positions, 1.0), self._for_all_heads(self._sine, positions, 0.0)

    def _for_all_heads(self, table: Tensor, positions: Tensor, resting: float) -> Tensor:
        turning = table.index_select(0, positions).expand(-1, self._turning_count, -1, -1)
        return torch.cat((turning, turning.new_full((), resting).expand_as(turning[:, : self._resting_count])), dim=1)


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turns `heads` [tokens, heads, 2, head/2] by their positions. `sine` is negative for the first half."""
    return (heads * cosine).addcmul_(heads.flip(-2), sine)


def _frequencies(head_size: int, theta: float, scaling: Llama3Scaling | None) -> Tensor:
    exponents = torch.arange(0, head_size, 2, dtype=torch.float32) / head_size
    frequencies = 1.0 / theta**exponents
    return frequencies if scaling is None else _scale_llama3(frequencies, scaling)


def _scale_llama3(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Slow frequencies are divided by the factor, fast ones kept, those between interpolated."""
    wavelengths = 2 * math.pi / frequencies
    low_wavelength = scaling.original_max_len / scaling.low_frequency_factor
    high_wavelength = scaling.original_max_len / scaling.high_frequency_factor
    smooth = (scaling.original_max_len / wavelengths - scaling.low_frequency_factor) / (
        scaling.high_frequency_factor - scaling.low_frequency_factor
    )
    between = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
    scaled = torch.where(wavelengths > low_wavelength, frequencies / scaling.factor, between)
    return torch.where(wavelengths < high_wavelength, frequencies, scaled)
