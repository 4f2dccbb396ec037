"""Integers of a step that the attention kernels for GPUs read."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.step.step_arrays import Span, StepArrays
from headrace.engine.torch.device.device_copy import to_device
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
    """Place of each token in the KV cache [tokens]: block x block size + offset."""
    decode_tables: Tensor
    """Block tables of the decodes [decodes, blocks]."""
    lengths: Tensor
    """Tokens that each decode sees, itself included [decodes]."""
    span_tables: Tensor
    """Block tables of the other spans [spans, blocks]."""
    spans: Tensor
    """First row after the decodes, first position and token count of the other spans [spans, 3]."""
    row_blocks: Tensor
    """Programs of the other spans, see `blocks_of_rows` [programs, 2]."""

    @classmethod
    def of(cls, arrays: StepArrays, block_size: int, share: int, device: torch.device) -> Self:
        """Lays a step out for KV heads that `share` query heads have in common. One copy takes it to the device."""
        spans = arrays.split()
        decodes = list(takewhile(lambda span: span.token_count == 1, spans))
        others = spans[len(decodes) :]
        rows = [(span.first_row - len(decodes), span.start, span.token_count) for span in others]
        blocks = blocks_of_rows([span.token_count for span in others], share)
        parts = [
            arrays.positions.astype(np.int32),
            arrays.slots(block_size).astype(np.int32),
            _tables(decodes),
            np.array([span.end for span in decodes], np.int32),
            _tables(others),
            np.array(rows, np.int32).reshape(-1, 3),
            np.array(blocks, np.int32).reshape(-1, 2),
        ]
        return cls(*_copy_together(parts, device))

    @property
    def decode_count(self) -> int:
        return len(self.lengths)


def _tables(spans: Sequence[Span]) -> NDArray[np.int32]:
    """Stacks block tables, the shorter ones padded."""
    tables = np.zeros((len(spans), max((len(span.table) for span in spans), default=0)), np.int32)
    for row, span in zip(tables, spans, strict=True):
        row[: len(span.table)] = span.table
    return tables


def _copy_together(parts: Parts, device: torch.device) -> list[Tensor]:
    """Copies arrays to a device in one buffer, and returns them as views of it."""
    starts = np.cumsum([0, *(-(-part.size // ALIGNMENT) * ALIGNMENT for part in parts)]).tolist()
    buffer = np.zeros(starts[-1], np.int32)
    for part, start in zip(parts, starts, strict=False):
        buffer[start : start + part.size] = part.ravel()
    copied = to_device(buffer, device)
    return [copied[start : start + part.size].view(part.shape) for part, start in zip(parts, starts, strict=False)]
