"""Integers of a step that the attention kernels for GPUs read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import HeadShape
from headrace.engine.torch.device.device_copy import to_device
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_work import DecodeWork, split_decodes
from headrace.engine.triton.attention.prefill_attention import blocks_of_rows

Parts = Sequence[NDArray[np.int32]]
ALIGNMENT = 4
"""Integers to a multiple of which each array is padded: kernels are compiled once for arrays at 16 bytes, and again for
others."""


@dataclass(frozen=True, slots=True)
class PagedStep:
    """The tokens of a step, all int32: first decodes, which are spans of one token, then the other spans."""

    positions: Tensor
    """Position of each token in its sequence [tokens]."""
    slots: Tensor
    """Place of each token in the KV cache [tokens]: block x block size + offset. Negative: none."""
    work: DecodeWork
    """Texts of the decodes. Its block numbers are those of the whole step."""
    spans: Tensor
    """First row after the decodes, first position, token count and first block number of the other spans [spans, 4]."""
    row_blocks: Tensor
    """Programs of the other spans, see `blocks_of_rows` [programs, 2]."""

    @classmethod
    def of(cls, arrays: StepArrays, block_size: int, heads: HeadShape, device: torch.device) -> Self:
        """Lays a step out for attention with `heads`. One copy takes it to the device."""
        spans = arrays.spans.astype(np.int32)
        counts = spans[:, 1]
        decode_count = len(counts) if (counts == 1).all() else int(np.argmax(counts != 1))
        decodes, others = spans[:decode_count], spans[decode_count:]
        share = heads.head_count // heads.kv_head_count
        table = [others[:, 0] - decode_count, others[:, 2], others[:, 1], others[:, 3]]
        parts = [
            arrays.positions.astype(np.int32),
            arrays.slots(block_size).astype(np.int32),
            arrays.tables.astype(np.int32),
            *split_decodes(decodes[:, 2] + 1, decodes[:, 3], SPLIT_TOKENS),
            np.stack(table, axis=1),
            np.array(blocks_of_rows(others[:, 1].tolist(), share), np.int32).reshape(-1, 2),
            np.zeros(decode_count * heads.kv_head_count, np.int32),
        ]
        positions, slots, tables, work, splits, rows, blocks, counters = _copy_together(parts, device)
        return cls(positions, slots, DecodeWork(tables, work, splits, counters), rows, blocks)

    @property
    def decode_count(self) -> int:
        return len(self.work.decodes) - 1


def _copy_together(parts: Parts, device: torch.device) -> list[Tensor]:
    """Copies arrays to a device in one buffer, and returns them as views of it."""
    starts = np.cumsum([0, *(-(-part.size // ALIGNMENT) * ALIGNMENT for part in parts)]).tolist()
    buffer = np.zeros(starts[-1], np.int32)
    for part, start in zip(parts, starts, strict=False):
        buffer[start : start + part.size] = part.ravel()
    copied = to_device(buffer, device)
    return [copied[start : start + part.size].view(part.shape) for part, start in zip(parts, starts, strict=False)]
