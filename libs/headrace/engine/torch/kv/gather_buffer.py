"""Memory that keys and values are gathered into."""

import torch
from torch import Tensor


class GatherBuffer:
    """Memory that every gather reuses: faulting in fresh pages would cost as much as the copy itself."""

    def __init__(self, row_size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._rows = torch.empty((0, row_size), dtype=dtype, device=device)

    def take(self, row_count: int) -> Tensor:
        """Returns memory for [row_count, row size] numbers, valid until the next call."""
        if row_count > len(self._rows):
            self._rows = self._rows.new_empty((row_count, self._rows.shape[1]))
        return self._rows[:row_count]
