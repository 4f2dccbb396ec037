"""Random weights of every storage and group size, on which the kernels are tried before use: of GGUF's blocks, one of
each pair with and without minima, which share their code."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.packed_weight import GROUPS, PackedWeight, pack_block_parts, pack_codes, pack_plain
from headrace.engine.kernels.storage import BLOCKS, CODED, Storage

BLOCK_STORAGES = (Storage.Q4_1, Storage.Q5_1, Storage.Q8_0, Storage.Q4_K, Storage.Q5_K, Storage.Q6_K, Storage.MXFP4)

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TrialWeight:
    """A packed weight, and the numbers that it stands for."""

    packed: PackedWeight
    values: Floats
    """Numbers [out, in]."""


def name_of(packed: PackedWeight) -> str:
    """Returns the name of the kind of a weight, for people."""
    group = f" in groups of {packed.group}" if packed.storage in CODED else ""
    return f"{packed.storage.name} weights{group}"


def trial_weights(generator: np.random.Generator, out_size: int, in_size: int) -> list[TrialWeight]:
    """Makes plain and coded weights [out, in] of every kind. Those of the smallest groups have a bias and reorder their
    inputs."""
    shape = (out_size, in_size)
    plain = [plain_weight(generator, shape, storage) for storage in (Storage.F32, Storage.F16, Storage.BF16)]
    coded = [coded_weight(generator, shape, storage, group) for storage in CODED for group in GROUPS]
    return [*plain, *coded]


def plain_weight(generator: np.random.Generator, shape: tuple[int, int], storage: Storage) -> TrialWeight:
    """Makes a weight [out, in] that is stored as it is, in 16 or 32 bits."""
    values, rows = generator.standard_normal(shape, np.float32), np.arange(shape[0])
    if storage is Storage.F16:
        half = values.astype(np.float16)
        return TrialWeight(pack_plain(half, storage, rows), half.astype(np.float32))
    if storage is Storage.BF16:
        upper = values.view(np.uint32) >> 16
        return TrialWeight(pack_plain(upper.astype(np.uint16), storage, rows), (upper << 16).view(np.float32))
    return TrialWeight(pack_plain(values, storage, rows), values)


def coded_weight(generator: np.random.Generator, shape: tuple[int, int], storage: Storage, group: int) -> TrialWeight:
    """Makes a weight [out, in] of codes, with zero points near the middle."""
    out_size, in_size = shape
    bits = 4 if storage is Storage.U4 else 8
    middle = 1 << (bits - 1)
    codes = generator.integers(0, 1 << bits, shape, np.uint8)
    zeros = generator.integers(middle - 3, middle + 3, (out_size, in_size // group), np.uint8)
    scales = generator.random(zeros.shape, np.float32).astype(np.float16).astype(np.float32)
    values = (codes.astype(np.float32) - zeros.repeat(group, axis=1)) * scales.repeat(group, axis=1)
    packed = pack_codes(codes, scales, zeros, storage, np.arange(out_size))
    if group != min(GROUPS):
        return TrialWeight(packed, values)
    order = generator.permutation(in_size).astype(np.int32)
    bias = generator.standard_normal(out_size, np.float32)
    return TrialWeight(replace(packed, bias=bias, order=order), values)


def block_weight(generator: np.random.Generator, shape: tuple[int, int], storage: Storage) -> PackedWeight:
    """Makes a weight [out, in] of random blocks, with scales below 2. `in` is a multiple of the blocks' columns."""
    block_format = BLOCKS[storage]
    blocks = generator.integers(0, 256, (shape[0], shape[1] // block_format.columns, block_format.file_bytes), np.uint8)
    # Any bytes are a block but for its scales: those of fp16, first or last in a block, lose their largest exponents.
    if storage is Storage.MXFP4:
        blocks[:, :, 0] = blocks[:, :, 0] % 16 + 112
    else:
        blocks[:, :, (1, 3, -1)] &= 0xBF
    return pack_block_parts((blocks.reshape(shape[0], -1),), storage, np.arange(shape[0]))
