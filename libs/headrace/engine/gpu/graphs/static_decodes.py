"""Integers of steps of decodes in memory that stays where it is, as a captured graph needs them."""

import numpy as np
import torch

from headrace.engine.gpu.attention.paged_step import ALIGNMENT, PagedStep
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.device.device_copy import overwrite
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_work import DecodeWork, split_decodes

MAX_SPLITS = 4096
"""Splits of all texts of a captured step, a million tokens. Their sums take 64 MiB for 32 heads of 128."""
SMALL_COUNT = 8
"""Rows up to which sizes are powers of two; beyond, they are multiples of this."""


class StaticDecodes:
    """Decodes of up to `row_count` sequences of up to `max_block_count` blocks each. Rows without a sequence read
    nothing, write nothing to the KV cache, and have logits that mean nothing."""

    def __init__(
        self, row_count: int, max_block_count: int, block_size: int, kv_head_count: int, device: torch.device
    ) -> None:
        self.row_count = row_count
        self._block_size = block_size
        self._max_split_count = min(MAX_SPLITS, row_count * -(-max_block_count * block_size // SPLIT_TOKENS))
        block_room = min(row_count * max_block_count, self._max_split_count * -(-SPLIT_TOKENS // block_size))
        sizes = (row_count, row_count, row_count, 3 * (row_count + 1), 2 * self._max_split_count)
        starts = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()
        self._places = [slice(start, start + size) for start, size in zip(starts, sizes, strict=False)]
        self._integers = torch.zeros(starts[-1] + block_room, dtype=torch.int32, device=device)
        token_ids, positions, slots, decodes, splits = (self._integers[place] for place in self._places)
        # Block numbers follow the splits there are, so that one copy of what is used takes both to the device.
        counters = torch.zeros(row_count * kv_head_count, dtype=torch.int32, device=device)
        work = DecodeWork(self._integers, decodes.view(-1, 3), splits.view(-1, 2), counters)
        nothing = self._integers[:0]
        self.attended = PagedStep(positions, slots, work, nothing, nothing)
        self.step = StepTensors(token_ids, torch.arange(row_count, device=device))

    def takes(self, arrays: StepArrays) -> bool:
        """Whether there is room for a step of decodes alone."""
        splits = -(-(arrays.positions + 1) // SPLIT_TOKENS)
        # A row without a sequence has a split, too.
        padding = self.row_count - arrays.token_count
        return padding >= 0 and int(splits.sum()) + padding <= self._max_split_count

    def fill(self, arrays: StepArrays) -> None:
        """Lays out a step that it takes, in one copy."""
        count = arrays.token_count
        lengths = np.zeros(self.row_count, np.int32)
        lengths[:count] = arrays.positions + 1
        decodes, splits = split_decodes(lengths, np.zeros_like(lengths), SPLIT_TOKENS)
        first_block = self._places[-1].start + splits.size
        decodes[:count, 1] = arrays.spans[:, 3] + first_block
        host = np.zeros(first_block + arrays.table_size, np.int32)
        columns = (arrays.token_ids, arrays.positions, arrays.slots(self._block_size))
        for place, column in zip(self._places, columns, strict=False):
            host[place][:count] = column
        host[self._places[2]][count:] = -1
        host[self._places[3]] = decodes.ravel()
        host[self._places[4].start : first_block] = splits.ravel()
        host[first_block:] = arrays.tables
        overwrite(self._integers[: len(host)], host)


def count_rows(sequence_count: int) -> int:
    """Returns the rows that a number of sequences is padded to."""
    if sequence_count <= SMALL_COUNT:
        return 1 << (sequence_count - 1).bit_length()
    return -(-sequence_count // SMALL_COUNT) * SMALL_COUNT


def list_sizes(max_count: int) -> list[int]:
    """Lists all sizes that up to `max_count` sequences are padded to, the largest first."""
    return sorted({count_rows(count) for count in range(1, max_count + 1)}, reverse=True)
