"""Applies an operation to one row at a time."""

from collections.abc import Callable

import torch
from torch import Tensor


def row_by_row(operation: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Applies `operation` on [1, size] to each row of `inputs`, which has at least one."""
    return torch.cat([operation(row.clone()[None]) for row in inputs])
