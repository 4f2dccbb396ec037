"""Rounds weights to the nearest code in numpy, with the same bits as `round_to_nearest` on torch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from headrace.engine.checkpoints.weights.quantized_arrays import Codes, Floats, QuantizedArrays
from headrace.engine.memory.host_cores import usable_core_count

MIN_SCALE = np.float32(1e-8)
ROWS = 1024
"""Rows quantized at a time by each thread: intermediate results take several times the memory of the weight."""


def quantize_array(weight: Floats, bits: int, group_size: int) -> QuantizedArrays:
    """Quantizes `weight` [out, in] to codes with zero points. The input size is a multiple of `group_size`."""
    codes = np.empty(weight.shape, np.uint8)
    scales = np.empty((len(weight), weight.shape[1] // group_size), np.float32)
    zeros = np.empty(scales.shape, np.uint8)

    def quantize_rows(start: int) -> None:
        rows = slice(start, start + ROWS)
        # Scales beyond fp16 become infinite, which shows in the first logits.
        with np.errstate(all="ignore"):
            codes[rows], scales[rows], zeros[rows] = _quantize(weight[rows], bits, group_size)

    with ThreadPoolExecutor(usable_core_count()) as pool:
        list(pool.map(quantize_rows, range(0, len(weight), ROWS)))
    return QuantizedArrays(codes, scales, zeros, bits, group_size)


def _quantize(weight: Floats, bits: int, group_size: int) -> tuple[Codes, Floats, Codes]:
    """Chooses grids whose codes cover each group's values; scales are rounded to fp16, which the formats store."""
    groups = weight.reshape(len(weight), -1, group_size)
    top = np.float32((1 << bits) - 1)
    low = np.minimum(groups.min(axis=-1), np.float32(0))
    high = np.maximum(groups.max(axis=-1), np.float32(0))
    exact = (high - low) / top
    zeros = np.clip(np.rint(-low / np.maximum(exact, MIN_SCALE)), 0, top)
    scales = np.maximum(exact, MIN_SCALE).astype(np.float16).astype(np.float32)
    scales = np.maximum(scales, np.float32(np.finfo(np.float16).tiny))
    codes = np.rint(groups / scales[..., None])
    codes += zeros[..., None]
    return np.clip(codes, 0, top).astype(np.uint8).reshape(weight.shape), scales, zeros.astype(np.uint8)
