"""Tensors of 8-bit floating-point numbers, E4M3 (Micikevicius et al., FP8 Formats for Deep Learning, 2022)."""

import numpy as np

from headrace.engine.checkpoints.weights.quantized_arrays import Codes
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, take
from headrace.errors.tree import InvalidCheckpoint

_NO_NUMBER = 0x7F


def take_e4m3(source: TensorSource, name: str, shape: tuple[int, ...]) -> Codes:
    """Reads the bytes of a tensor. Raises InvalidCheckpoint naming it, also if one is no number."""
    codes: Codes = take(source, name, shape, np.uint8)
    if ((codes & _NO_NUMBER) == _NO_NUMBER).any():
        raise InvalidCheckpoint(f"tensor {name} holds bytes that are no numbers")
    return codes
