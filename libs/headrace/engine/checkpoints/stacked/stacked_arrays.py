"""Arrays of a checkpoint that stacks its experts."""

from typing import Protocol

import numpy as np

from headrace.engine.checkpoints.facts.expert_config import StackedExperts
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.stacked.stacked_tensors import EntrySource, ExpertTensor, StackedTensors
from headrace.engine.checkpoints.weights.quantized_arrays import Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.stored_arrays import Numbers
from headrace.engine.checkpoints.weights.tensor_source import take
from headrace.engine.kernels.storage import Storage


class EntryArrays(EntrySource, Protocol):
    """Arrays of which single entries can be read: see ArraySource."""

    def values(self, name: str, shape: tuple[int, ...]) -> Floats: ...

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]: ...

    def stored_entry(self, name: str, index: int) -> tuple[Numbers, Storage]:
        """Reads one entry along the first dimension, see `stored`. Raises InvalidCheckpoint."""
        ...

    def forget(self) -> None: ...


class StackedArrays:
    """Reads each expert's arrays by the names that its own would have. See ArraySource."""

    def __init__(self, arrays: EntryArrays, layout: StackedExperts) -> None:
        self._arrays = arrays
        self._layout = layout
        self._tensors = StackedTensors(arrays, layout)

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        if not self._tensors.has_expert(name):
            return self._arrays.values(name, shape)
        return take(self._tensors, name, shape, np.float32)

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        place = ExpertTensor.of(name, self._layout)
        if place is None:
            return self._arrays.stored(name, shape)
        numbers, storage = self._arrays.stored_entry(place.stacked, place.expert)
        cut = place.cut(numbers, self._layout)
        return (cut, storage) if cut.shape == shape else (self.values(name, shape), Storage.F32)

    def quantized(self, name: str, shape: tuple[int, int]) -> QuantizedArrays | None:
        return read_quantized(self._tensors, name, *shape, self._arrays.scheme)

    def forget(self) -> None:
        self._arrays.forget()
