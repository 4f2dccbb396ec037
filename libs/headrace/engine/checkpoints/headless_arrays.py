"""A decoder's arrays in a checkpoint saved without its head, whose tensor names therefore lack the model prefix."""

from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.weights.quantized_arrays import Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.stored_arrays import Numbers
from headrace.engine.kernels.storage import Storage

PREFIX = "model."


class HeadlessArrays:
    """Reads `model.norm.weight` from `norm.weight` if the checkpoint has that instead. See ArraySource."""

    def __init__(self, arrays: SafetensorsArrays) -> None:
        self._arrays = arrays
        self._prefix = PREFIX if f"{PREFIX}embed_tokens.weight" in arrays else ""

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        return self._arrays.values(self._own(name), shape)

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        return self._arrays.stored(self._own(name), shape)

    def quantized(self, name: str, shape: tuple[int, int]) -> QuantizedArrays | None:
        return self._arrays.quantized(self._own(name), shape)

    def forget(self) -> None:
        self._arrays.forget()

    def _own(self, name: str) -> str:
        return self._prefix + name.removeprefix(PREFIX)
