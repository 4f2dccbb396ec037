"""Rotary position embedding (RoFormer, Su et al., 2021), pairing the two halves of a head as in Llama checkpoints."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotation of the heads of a step's tokens."""

    cosine: Tensor
    """Cosines [tokens, heads, 2, rotary/2]."""
    sine: Tensor
    """Sines [tokens, heads, 2, rotary/2], negated for the first half."""


class RotaryTable:
    """Cosines and sines for every position.

    They cover all heads of a fused query, key and value projection. Values are rotated by angle zero, which leaves them
    unchanged and keeps them next to their keys in memory, so that one write stores both in the cache.
    """

    def __init__(
        self, angles: tuple[Floats, Floats], head_counts: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> None:
        """`angles` are cosines and sines, each [positions, rotary/2]; `head_counts` those of queries and of keys."""
        cosine, sine = map(torch.from_numpy, angles)
        self._cosine = torch.stack([cosine, cosine], dim=1)[:, None].to(device, dtype)  # [len, 1, 2, rotary/2]
        self._sine = torch.stack([-sine, sine], dim=1)[:, None].to(device, dtype)
        self._turning_count = sum(head_counts)
        self._resting_count = head_counts[1]

    def at(self, positions: Tensor) -> Rotation:
        """Returns the rotation for `positions` [tokens]."""
        return Rotation(
            self._for_all_heads(self._cosine, positions, 1.0), self._for_all_heads(self._sine, positions, 0.0)
        )

    def _for_all_heads(self, table: Tensor, positions: Tensor, resting: float) -> Tensor:
        turning = table.index_select(0, positions).expand(-1, self._turning_count, -1, -1)
        return torch.cat((turning, turning.new_full((), resting).expand_as(turning[:, : self._resting_count])), dim=1)


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Rotates `heads` [tokens, heads, head] by their positions. Leaves elements beyond the rotary size unchanged."""
    token_count, head_count, head_size = heads.shape
    half = rotation.cosine.shape[-1]
    if 2 * half == head_size:
        return _turn(heads.view(token_count, head_count, 2, half), rotation)
    turning, resting = torch.split(heads, [2 * half, head_size - 2 * half], dim=-1)
    return torch.cat((_turn(turning.view(token_count, head_count, 2, half), rotation), resting), dim=-1)


def _turn(pairs: Tensor, rotation: Rotation) -> Tensor:
    return (pairs * rotation.cosine).addcmul_(pairs.flip(-2), rotation.sine).flatten(-2)
