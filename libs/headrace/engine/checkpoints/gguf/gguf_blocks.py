"""Codes of GGUF's blocks in canonical form. The layouts are those of ggml's `ggml-quants.c`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.weights.quantized_arrays import BlockRun, Codes, Floats, QuantizedArrays
from headrace.engine.kernels.storage import BLOCKS, Storage

EXPONENT_BIAS = 127
"""Number that is added to the exponents of MXFP4."""
Blocks = NDArray[np.uint8]
Parts = tuple[Codes, Floats, Codes | Floats]
"""Codes [blocks, columns], scales [blocks, groups], and zero points or offsets of the same shape."""


def block_codes(run: BlockRun) -> QuantizedArrays:
    """Takes the blocks of some rows apart. Copies them."""
    rows = np.concatenate(run.parts)
    blocks = rows.reshape(-1, BLOCKS[run.storage].file_bytes)
    read, bits = _READERS[run.storage]
    codes, scales, zeros = read(blocks)
    group_size = codes.shape[1] // scales.shape[1]
    shape = len(rows), -1
    grids = scales.reshape(shape), zeros.reshape(shape)
    is_float = run.storage is Storage.MXFP4
    return QuantizedArrays(codes.reshape(shape), *grids, bits, group_size, is_float=is_float)


def _q4_0(blocks: Blocks) -> Parts:
    return _centered(_halves(blocks[:, 2:]), _number(blocks, 0), 8)


def _q4_1(blocks: Blocks) -> Parts:
    return _halves(blocks[:, 4:]), _number(blocks, 0), _number(blocks, 2)


def _q5_0(blocks: Blocks) -> Parts:
    return _centered(_halves(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), _number(blocks, 0), 16)


def _q5_1(blocks: Blocks) -> Parts:
    return _halves(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8]), _number(blocks, 0), _number(blocks, 2)


def _q8_0(blocks: Blocks) -> Parts:
    return _centered(blocks[:, 2:] ^ np.uint8(0x80), _number(blocks, 0), 128)


def _q4_k(blocks: Blocks) -> Parts:
    return _quarters(blocks[:, 16:]).reshape(len(blocks), -1), *_grid_k(blocks)


def _q5_k(blocks: Blocks) -> Parts:
    fifth = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little").swapaxes(1, 2) << np.uint8(4)
    codes: Codes = _quarters(blocks[:, 48:]) | fifth
    return codes.reshape(len(blocks), -1), *_grid_k(blocks)


def _mxfp4(blocks: Blocks) -> Parts:
    exponents = np.ascontiguousarray(blocks[:, :1]).astype(np.int32)
    scales: Floats = np.ldexp(np.float32(1), exponents - EXPONENT_BIAS).astype(np.float32)
    return _centered(_halves(blocks[:, 1:]), scales, 0)


def _q6_k(blocks: Blocks) -> Parts:
    low: Codes = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([[0], [4]], np.uint8) & np.uint8(0xF)
    high: Codes = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([[0], [2], [4], [6]], np.uint8) & np.uint8(3)
    codes: Codes = low.reshape(-1, 2, 4, 32) | high << np.uint8(4)
    scales = _number(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return _centered(codes.reshape(len(blocks), -1), scales, 32)


def _centered(codes: Codes, scales: Floats, zero: int) -> Parts:
    return codes, scales, np.full(scales.shape, zero, np.uint8)


def _number(blocks: Blocks, at: int) -> Floats:
    """Reads the fp16 numbers at one place of each block: [blocks, 1]."""
    numbers: Floats = np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)
    return numbers


def _halves(pairs: Blocks) -> Codes:
    """Takes low bits before high ones: [blocks, bytes] to [blocks, 2 x bytes]."""
    return np.concatenate((pairs & 0xF, pairs >> 4), axis=1)


def _quarters(pairs: Blocks) -> Codes:
    """Takes the low bits of each 32 bytes before their high ones: [blocks, 128] to [blocks, 8, 32]."""
    parts: Codes = pairs.reshape(-1, 4, 1, 32) >> np.array([[0], [4]], np.uint8) & np.uint8(0xF)
    return parts.reshape(-1, 8, 32)


def _fifth_bits(words: Blocks) -> Codes:
    """Places the bits of 32-bit words [blocks, 4 bytes] as the fifth of each code: [blocks, 32]."""
    fifth: Codes = np.unpackbits(words, axis=1, bitorder="little") << np.uint8(4)
    return fifth


def _grid_k(blocks: Blocks) -> tuple[Floats, Floats]:
    """Reads scales and offsets [blocks, 8]: both of 6 bits, times an fp16 number each."""
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate((first & 63, third & 0xF | first >> 6 << 4), axis=1)
    minima = np.concatenate((second & 63, third >> 4 | second >> 6 << 4), axis=1)
    return _number(blocks, 0) * scales.astype(np.float32), -(_number(blocks, 2) * minima.astype(np.float32))


_READERS: dict[Storage, tuple[Callable[[Blocks], Parts], int]] = {
    Storage.Q4_0: (_q4_0, 4),
    Storage.Q4_1: (_q4_1, 4),
    Storage.Q5_0: (_q5_0, 8),
    Storage.Q5_1: (_q5_1, 8),
    Storage.Q8_0: (_q8_0, 8),
    Storage.Q4_K: (_q4_k, 4),
    Storage.Q5_K: (_q5_k, 8),
    Storage.Q6_K: (_q6_k, 8),
    Storage.MXFP4: (_mxfp4, 4),
}
"""Reader of each kind of block, and the bits in which its codes are kept."""
