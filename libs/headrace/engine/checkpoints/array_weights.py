"""The tensors of a model in numpy's arrays, for the kernels: read without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.gguf.gguf_arrays import GgufArrays
from headrace.engine.checkpoints.layout.stored_names import USUAL_NAMING, ModuleNaming, StoredNames
from headrace.engine.checkpoints.named_arrays import NamedArrays
from headrace.engine.checkpoints.packing.mxfp4_blocks import mxfp4_blocks
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.stacked.stacked_arrays import StackedArrays
from headrace.engine.checkpoints.weights.quantized_arrays import (
    ArrayWeight,
    BlockArrays,
    Floats,
    QuantizedArrays,
    kernel_group_of,
    reordered_arrays,
    stack_arrays,
)
from headrace.engine.checkpoints.weights.stored_arrays import Numbers, StoredArrays
from headrace.engine.checkpoints.weights.weight_rounding import GROUP_SIZES, HEAD_BITS, WeightRounding
from headrace.engine.kernels.storage import Storage
from headrace.errors.tree import ConfigError

EMBEDDING = "model.embed_tokens"
"""Module whose rows are looked up, and so keep their numbers."""


class ArraySource(Protocol):
    """Tensors by their names in Hugging Face checkpoints. Raises InvalidCheckpoint naming the tensor."""

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Reads one tensor as fp32."""
        ...

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        """Reads one tensor in the type that it is stored in, if kernels read that; otherwise as fp32."""
        ...

    def quantized(self, name: str, shape: tuple[int, int]) -> QuantizedArrays | BlockArrays | None:
        """Reads the weight [out, in] of module `name`; None if it is stored as plain numbers."""
        ...

    def forget(self) -> None:
        """Gives back the memory of what was read. Reading it again brings it back."""
        ...


class ArrayWeights:
    """Tensors that kernels can multiply, see ModelTensors. Plain matrices are rounded, and floating-point codes are
    plain numbers here, but for MXFP4."""

    def __init__(self, source: ArraySource, rounding: WeightRounding) -> None:
        self._source = source
        self._bits, self._storage = rounding.bits, rounding.storage

    def read(self, name: str, shape: tuple[int, ...]) -> Floats:
        return self._source.values(name, shape)

    def precise(self, name: str, shape: tuple[int, ...]) -> Floats:
        return self._source.values(name, shape)

    def stored(self, name: str, shape: tuple[int, ...], precision: str) -> Floats:
        return self._source.values(name, shape)

    def matrix(self, name: str, shape: tuple[int, int]) -> ArrayWeight:
        quantized = self._source.quantized(name, shape)
        if isinstance(quantized, BlockArrays):
            return quantized
        if quantized is not None and self._bits is None and self._storage is None:
            blocks = mxfp4_blocks(quantized)
            if blocks is not None:
                return blocks
        if quantized is not None and not quantized.is_float:
            fits = shape[1] % quantized.group_size == 0 and kernel_group_of(quantized.group_size) is not None
            return quantized if fits else self.plain(name, quantized.dequantize(), Storage.F32)
        numbers: Numbers
        if quantized is None:
            numbers, storage = self._source.stored(f"{name}.weight", shape)
        else:
            numbers, storage = quantized.dequantize(), Storage.F32
        group_size = next((size for size in GROUP_SIZES if shape[1] % size == 0), None)
        if self._bits is None or group_size is None or name == EMBEDDING:
            return self.plain(name, numbers, storage)
        return StoredArrays((numbers,), storage, HEAD_BITS if name == "lm_head" else self._bits, group_size)

    def plain(self, name: str, numbers: Numbers, storage: Storage) -> StoredArrays:
        """Returns a weight of plain numbers, rounded if they are to be. Raises ConfigError if one is out of range."""
        weight = StoredArrays((numbers,), storage)
        if self._storage is None:
            return weight
        try:
            return weight.rounded_to(self._storage)
        except OverflowError as error:
            raise ConfigError(
                f"precision: weight {name} cannot be rounded: {error}; choose another precision", param="precision"
            ) from error

    def forget(self) -> None:
        """Gives back the memory of what was read, which must not be in use any longer."""
        self._source.forget()

    def stack(self, weights: Sequence[ArrayWeight]) -> ArrayWeight:
        return stack_arrays(weights)

    def ones(self, size: int) -> Floats:
        return np.ones(size, np.float32)

    def join(self, vectors: Sequence[Floats]) -> Floats:
        return np.concatenate(vectors)

    def raised(self, vector: Floats, offset: float) -> Floats:
        return vector + np.float32(offset)

    def scaled(self, vector: Floats, factor: float) -> Floats:
        return vector * np.float32(factor)

    def reordered(self, weight: ArrayWeight, rows: NDArray[np.int64]) -> ArrayWeight:
        return reordered_arrays(weight, rows)

    def picked(self, vector: Floats, places: NDArray[np.int64]) -> Floats:
        return vector[places]


def open_array_weights(
    source: Path,
    scheme: QuantizationScheme | None,
    rounding: WeightRounding,
    *,
    keeps_blocks: bool = False,
    naming: ModuleNaming = USUAL_NAMING,
) -> ArrayWeights:
    """Opens a model folder or a GGUF file. `keeps_blocks` leaves blocks of GGUF that the kernels can multiply as they
    are; otherwise they become the numbers that they stand for. A folder may have other names for tensors, see
    `naming`. Raises InvalidCheckpoint or Unsupported."""
    if is_gguf(source):
        return ArrayWeights(GgufArrays(source, keeps_blocks=keeps_blocks), rounding)
    arrays = SafetensorsArrays(source, scheme)
    names = StoredNames.of(naming, arrays)
    stacked = names.stacked(naming, arrays)
    own = arrays if stacked is None else StackedArrays(arrays, stacked)
    return ArrayWeights(own if names.are_usual else NamedArrays(own, names), rounding)
