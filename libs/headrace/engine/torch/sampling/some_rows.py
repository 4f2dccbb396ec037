"""Some rows of a tensor, by their numbers on the host, which does not wait for the device; numbers beside a tensor."""

import numpy as np
import torch
from torch import Tensor

from headrace.engine.torch.device.device_copy import to_device


def take_rows(tensor: Tensor, rows: list[int]) -> Tensor:
    """Returns some rows, or the tensor itself where all are wanted."""
    return tensor if len(rows) == len(tensor) else tensor.index_select(0, places_on(tensor, rows))


def replace_rows(tensor: Tensor, rows: list[int], others: Tensor) -> Tensor:
    """Returns the tensor with `others` in the place of some rows."""
    return tensor.index_copy(0, places_on(tensor, rows), others)


def places_on(tensor: Tensor, places: list[int]) -> Tensor:
    """Returns places as a tensor on the device of another: int64 [places]."""
    return to_device(np.array(places, np.int64), tensor.device)


def numbers_like(tensor: Tensor, values: list[float]) -> Tensor:
    """Returns a tensor [values] of these numbers, with the dtype (fp32 or fp64) and the device of another."""
    return to_device(np.array(values, np.float64 if tensor.dtype == torch.float64 else np.float32), tensor.device)
