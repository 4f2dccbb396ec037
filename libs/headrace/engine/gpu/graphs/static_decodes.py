"""Integers of steps of decodes in memory that stays where it is, as a captured graph needs them."""

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.engine.gpu.attention.paged_step import ALIGNMENT, PagedStep
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.device.device_copy import overwrite

MIN_TABLE_SIZE = 16
SMALL_COUNT = 8
"""Rows up to which sizes are powers of two; beyond, they are multiples of this."""


class StaticDecodes:
    """Decodes of `row_count` sequences whose block tables have up to `table_size` blocks. With fewer sequences the last
    one stands in every row that is left: it writes the same keys and values to the same slot again."""

    def __init__(self, row_count: int, table_size: int, device: torch.device) -> None:
        self.row_count = row_count
        self.table_size = table_size
        self._stride = -(-row_count // ALIGNMENT) * ALIGNMENT
        self._integers = torch.zeros(4 * self._stride + row_count * table_size, dtype=torch.int32, device=device)
        parts = [self._integers[index * self._stride :][:row_count] for index in range(4)]
        self.token_ids, positions, slots, lengths = parts
        tables = self._integers[4 * self._stride :].view(row_count, table_size)
        nothing = self._integers[:0]
        self.step = PagedStep(positions, slots, tables, lengths, nothing, nothing, nothing)
        self.rows = torch.arange(row_count, device=device)
        """Rows of which logits are wanted."""

    def fill(self, arrays: StepArrays, block_size: int) -> None:
        """Lays out a step of decodes alone, in one copy."""
        spans = arrays.split()
        host = np.zeros(self._integers.shape, np.int32)
        tables = host[4 * self._stride :].reshape(self.row_count, self.table_size)
        columns = arrays.token_ids, arrays.positions, arrays.slots(block_size), arrays.positions + 1
        for index, column in enumerate(columns):
            host[index * self._stride :][: self.row_count] = self._padded(column)
        for row, table in enumerate(tables):
            own = spans[min(row, len(spans) - 1)].table
            table[: len(own)] = own
        overwrite(self._integers, host)

    def _padded(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.pad(column, (0, self.row_count - len(column)), mode="edge")


def count_rows(sequence_count: int) -> int:
    """Returns the rows that a number of sequences is padded to."""
    if sequence_count <= SMALL_COUNT:
        return 1 << (sequence_count - 1).bit_length()
    return -(-sequence_count // SMALL_COUNT) * SMALL_COUNT


def count_blocks(block_count: int) -> int:
    """Returns the blocks that tables are padded to."""
    return max(MIN_TABLE_SIZE, 1 << (block_count - 1).bit_length())
