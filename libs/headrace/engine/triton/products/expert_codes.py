"""Packed weights of the experts of a layer, as the kernels for GPUs read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from headrace.engine.triton.products.packed_codes import PackedCodes


@dataclass(frozen=True, slots=True)
class ExpertCodes:
    """The same projection of all experts, see `PackedCodes`. None has inputs in an order of its own."""

    words: Tensor
    """Codes int32 [experts, padded in x bits / 32, out]."""
    scales: Tensor
    """Scales float32 [experts, groups, out]."""
    zeros: Tensor
    """Zero points int32 or offsets float32 [experts, groups, out]; [experts, 0] for floating-point codes."""
    first: PackedCodes
    """The first expert's weight, a view: the facts that all share."""

    @classmethod
    def of(cls, weights: Sequence[PackedCodes]) -> Self | None:
        """Stacks weights of one shape and format. None: they are not alike, or have an order of inputs."""
        facts = {
            (each.bits, each.group_size, each.in_size, each.out_size, each.is_float, each.zeros.dtype)
            for each in weights
        }
        if len(facts) != 1 or any(each.input_order is not None for each in weights):
            return None
        words, scales, zeros = (
            torch.stack([getattr(each, name) for each in weights]) for name in ("words", "scales", "zeros")
        )
        one = weights[0]
        first = PackedCodes(words[0], scales[0], zeros[0], one.bits, one.group_size, one.in_size, None, one.is_float)
        return cls(words, scales, zeros, first)

    @property
    def expert_count(self) -> int:
        return len(self.words)
