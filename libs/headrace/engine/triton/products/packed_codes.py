"""Layout of quantized weights that the GPU kernels read."""

from dataclasses import dataclass
from math import gcd
from typing import Self

import torch
from torch import Tensor

WORD_BITS = 32
PLANE_INPUTS = 16
"""Inputs of a plane: as many as the tensor cores multiply at once in 16 bits."""
BLOCK_INPUTS = 128
"""Inputs are padded to a multiple of this with codes of 0, so that no kernel reads part of a block of words."""
BLOCK_PLANES = BLOCK_INPUTS // PLANE_INPUTS
ONE_GROUP = 1 << 30
"""Group size that stands for one group, however many inputs there are."""


@dataclass(frozen=True, slots=True)
class PackedCodes:
    """A weight [out, in] of 4 or 8 bits: of integers, or of floating-point numbers without zero points.

    W[n, input_order[k]] = (code[k, n] - zeros[g, n]) * scales[g, n]  with  g = k // group_size, or with offsets
    W[n, input_order[k]] = code[k, n] * scales[g, n] + zeros[g, n]

    Inputs are sorted by group and lie in planes: word j of a tile of 16 words holds the inputs j, j + 16, j + 32, ...,
    8 of them in 4 bits and 4 in 8. The lower half of a word has those of even planes, low bits first, the upper half
    those of odd ones. So one shift of a tile gives the codes of two planes of 16 consecutive inputs, each in the thread
    that multiplies it. Neighbors in memory are outputs, so that threads read side by side.
    """

    words: Tensor
    """Codes int32 [padded in x bits / 32, out]."""
    scales: Tensor
    """Scales float32 [groups of the padded inputs, out]. 0 where a group has padding alone."""
    zeros: Tensor
    """Codes that represent 0, int32 [groups of the padded inputs, out], or offsets float32: kernels can have numbers of
    less than 4 bytes sent ahead only several at a time. Floating-point numbers have none: [0]."""
    bits: int
    group_size: int
    """Inputs of a group: a multiple of 16, or `ONE_GROUP`."""
    in_size: int
    input_order: Tensor | None = None
    """Input of each sorted column, int64 [in]. None: as they come."""
    is_float: bool = False
    """Whether codes are floating-point numbers: E2M1 in 4 bits, E4M3 in 8."""

    @classmethod
    def of(
        cls,
        codes: Tensor,
        scales: Tensor,
        zeros: Tensor,
        bits: int,
        group_size: int,
        input_order: Tensor | None = None,
        *,
        is_float: bool = False,
    ) -> Self:
        """Packs codes uint8 [out, in] with scales and zero points or offsets [out, groups], on their device.
        `group_size` is a multiple of 16, or not less than the inputs."""
        out_size, in_size = codes.shape
        per_word = WORD_BITS // bits
        tiles = torch.nn.functional.pad(codes, (0, -in_size % BLOCK_INPUTS)).view(out_size, -1, per_word, PLANE_INPUTS)
        words = torch.zeros((out_size, tiles.shape[1], PLANE_INPUTS), dtype=torch.int32, device=codes.device)
        for plane in range(per_word):
            words |= tiles[:, :, plane].to(torch.int32) << (plane // 2 * bits + plane % 2 * (WORD_BITS // 2))
        size = ONE_GROUP if group_size >= in_size else group_size
        padding = (0, -(-tiles[0].numel() // size) - scales.shape[1])
        origins = torch.nn.functional.pad(zeros.float() if zeros.is_floating_point() else zeros.int(), padding)
        origins = origins.T.contiguous()
        return cls(
            words.view(out_size, -1).T.contiguous(),
            torch.nn.functional.pad(scales.float(), padding).T.contiguous(),
            origins.new_empty(0, dtype=torch.int32) if is_float else origins,
            bits,
            size,
            in_size,
            input_order,
            is_float,
        )

    @property
    def out_size(self) -> int:
        return self.words.shape[1]

    @property
    def has_padding(self) -> bool:
        """Whether the last block has fewer inputs than the others."""
        return self.in_size % BLOCK_INPUTS != 0

    @property
    def group_planes(self) -> int:
        """Neighboring planes of a block, 1 to 8, that are of one group wherever the block begins."""
        return gcd(self.group_size, BLOCK_INPUTS) // PLANE_INPUTS
