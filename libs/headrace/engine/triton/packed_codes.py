"""Layout of quantized weights that the GPU kernels read."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

WORD_BITS = 32
ROW_UNIT = 64
"""Inputs are padded to a multiple of this with codes of 0, so that no kernel reads part of a block of words."""


@dataclass(frozen=True, slots=True)
class PackedCodes:
    """A weight [out, in] of 4 or 8 bits.

    W[n, input_order[k]] = (code[k, n] - zeros[g, n]) * scales[g, n]  with  g = k // group_size

    The words are those of GPTQ's qweight with inputs sorted by group: 32 / bits consecutive inputs of one output to a
    word, low bits first. Neighbors in memory are outputs, so that threads read side by side.
    """

    words: Tensor
    """Codes int32 [padded in x bits / 32, out]."""
    scales: Tensor
    """Scales float32 [groups, out]."""
    zeros: Tensor
    """Codes that represent 0, uint8 [groups, out]."""
    bits: int
    group_size: int
    in_size: int
    input_order: Tensor | None = None
    """Input of each sorted column, int64 [in]. None: as they come."""

    @classmethod
    def of(
        cls, codes: Tensor, scales: Tensor, zeros: Tensor, bits: int, group_size: int, input_order: Tensor | None = None
    ) -> Self:
        """Packs codes uint8 [out, in] with scales and zero points [out, groups], on their device."""
        out_size, in_size = codes.shape
        per_word = WORD_BITS // bits
        padded = torch.nn.functional.pad(codes, (0, -in_size % ROW_UNIT)).view(out_size, -1, per_word)
        words = torch.zeros(padded.shape[:2], dtype=torch.int32, device=codes.device)
        for index in range(per_word):
            words |= padded[..., index].to(torch.int32) << (index * bits)
        return cls(
            words.T.contiguous(),
            scales.float().T.contiguous(),
            zeros.T.contiguous(),
            bits,
            group_size,
            in_size,
            input_order,
        )

    @property
    def out_size(self) -> int:
        return self.words.shape[1]
