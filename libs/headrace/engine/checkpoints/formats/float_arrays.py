"""Weights of floating-point codes in canonical form."""

import numpy as np

from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.checkpoints.weights.quantized_arrays import Codes, Floats, QuantizedArrays
from headrace.errors.tree import InvalidCheckpoint


def float_arrays(name: str, codes: Codes, scales: Floats, bits: int, group_size: int) -> QuantizedArrays:
    """Joins codes [out, in] and scales [out, groups] of module `name`. Raises InvalidCheckpoint if a number may be out
    of the range of fp32."""
    largest = np.nanmax(code_numbers(bits, is_float=True))
    # Whatever is not comparable is not in range either.
    if not (np.abs(scales) <= np.finfo(np.float32).max / largest).all():
        raise InvalidCheckpoint(f"module {name} has scales that make numbers too large for fp32")
    whole = np.ascontiguousarray(scales)
    return QuantizedArrays(codes, whole, np.zeros(whole.shape, np.uint8), bits, group_size, is_float=True)
