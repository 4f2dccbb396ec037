"""Tokens that a step chose, on the device, for the step after it."""

import torch
from torch import Tensor


class ChosenTokens:
    """Ids of tokens by row, in memory that stays where it is: captured steps read it."""

    def __init__(self, max_row_count: int, device: torch.device) -> None:
        """Makes room for a token of each of up to `max_row_count` sequences."""
        self._ids = torch.zeros(max_row_count, dtype=torch.int64, device=device)

    def keep(self, ids: Tensor) -> None:
        """Overwrites the ids of the first rows with `ids`, int64 [rows]."""
        self._ids[: len(ids)].copy_(ids)

    def resolve(self, token_ids: Tensor) -> Tensor:
        """Returns integers [tokens] with the ids that are kept in the place of negative ones: -1 - row."""
        rows = token_ids.bitwise_not().clamp_(min=0)
        return torch.where(token_ids < 0, self._ids.index_select(0, rows), token_ids)
