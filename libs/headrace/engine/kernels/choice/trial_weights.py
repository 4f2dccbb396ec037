"""Random weights of every storage and group size, on which the kernels are tried before use."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.packed_weight import GROUPS, PackedWeight, pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TrialWeight:
    """A packed weight, and the numbers that it stands for."""

    packed: PackedWeight
    values: Floats
    """Numbers [out, in]."""

    @property
    def name(self) -> str:
        group = f" in groups of {self.packed.group}" if self.packed.is_coded else ""
        return f"{self.packed.storage.name} weights{group}"


def trial_weights(generator: np.random.Generator, out_size: int, in_size: int) -> list[TrialWeight]:
    """Makes weights [out, in] of every kind that packs them. Those of the smallest groups have a bias and reorder their
    inputs."""
    shape = (out_size, in_size)
    plain = [plain_weight(generator, shape, storage) for storage in (Storage.F32, Storage.F16, Storage.BF16)]
    coded = [coded_weight(generator, shape, storage, group) for storage in (Storage.U4, Storage.U8) for group in GROUPS]
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
