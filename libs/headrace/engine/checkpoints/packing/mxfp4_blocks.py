"""MXFP4 (OCP Microscaling Formats 1.0) in the blocks that the kernels multiply."""

import numpy as np

from headrace.engine.checkpoints.weights.quantized_arrays import BlockArrays, BlockRun, Codes, QuantizedArrays
from headrace.engine.kernels.storage import BLOCKS, Storage

EXPONENT_BIAS = 127
MAX_EXPONENT = 254


def mxfp4_blocks(weight: QuantizedArrays) -> BlockArrays | None:
    """Returns the same weight [out, in] in blocks. None: it is no MXFP4, which has numbers of 4 bits in groups of 32,
    each with a power of two as its scale."""
    columns = BLOCKS[Storage.MXFP4].columns
    out_size, in_size = weight.codes.shape
    if not weight.is_float or (weight.bits, weight.group_size) != (4, columns) or in_size % columns:
        return None
    fractions, exponents = np.frexp(weight.scales)
    stored = exponents - 1 + EXPONENT_BIAS
    if (fractions != 0.5).any() or (stored < 0).any() or (stored > MAX_EXPONENT).any():
        return None
    halves = weight.codes.reshape(out_size, -1, 2, columns // 2)
    pairs = halves[:, :, 0] | halves[:, :, 1] << np.uint8(4)
    blocks: Codes = np.concatenate((stored.astype(np.uint8)[:, :, None], pairs), axis=2)
    return BlockArrays((BlockRun((blocks.reshape(out_size, -1),), Storage.MXFP4),))
