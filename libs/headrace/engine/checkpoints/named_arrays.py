"""A decoder's arrays in a checkpoint that has other names for them."""

from headrace.engine.checkpoints.layout.stored_names import StoredNames
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.stacked.stacked_arrays import StackedArrays
from headrace.engine.checkpoints.weights.quantized_arrays import Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.stored_arrays import Numbers
from headrace.engine.kernels.storage import Storage


class NamedArrays:
    """Reads each array by the name that it is stored under. See ArraySource."""

    def __init__(self, arrays: SafetensorsArrays | StackedArrays, names: StoredNames) -> None:
        self._arrays = arrays
        self._names = names

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        return self._arrays.values(self._names.stored(name), shape)

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        return self._arrays.stored(self._names.stored(name), shape)

    def quantized(self, name: str, shape: tuple[int, int]) -> QuantizedArrays | None:
        return self._arrays.quantized(self._names.stored(name), shape)

    def forget(self) -> None:
        self._arrays.forget()
