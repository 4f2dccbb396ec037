"""Packs integers of 2, 3, 4 and 8 bits into 32-bit words, low bits first."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.formats.bit_packing import WORD_BITS, words_for


def pack(values: Tensor, bits: int) -> Tensor:
    """Packs uint8 [..., count] to int32 [..., words]: the inverse of `unpack`. The count must fill whole words."""
    wide = values.to(torch.int64)
    positions = torch.arange(values.shape[-1], device=values.device) * bits
    words = torch.zeros((*values.shape[:-1], words_for(values.shape[-1], bits) + 1), dtype=torch.int64)
    low = positions // WORD_BITS
    shifted = wide << (positions % WORD_BITS)
    words.index_add_(-1, low, shifted & 0xFFFFFFFF)
    words.index_add_(-1, low + 1, shifted >> WORD_BITS)
    words = words[..., :-1]
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
