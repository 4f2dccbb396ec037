"""Decides which modules are quantized, and which reader they need."""

from collections.abc import Callable

from headrace.engine.checkpoints.facts.scheme import Method, QuantizationScheme
from headrace.engine.checkpoints.formats import awq, compressed_tensors, gptq
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource

Reader = Callable[[TensorSource, str, int, int, QuantizationScheme], QuantizedArrays]
READERS: dict[Method, Reader] = {
    "awq": awq.read,
    "gptq": gptq.read,
    "compressed-tensors": compressed_tensors.read,
}
MARKERS: dict[Method, tuple[str, ...]] = {
    "awq": ("qweight",),
    "gptq": ("qweight",),
    "compressed-tensors": ("weight_packed", "weight_scale"),
}
"""Tensors that only quantized modules have. Modules without them were left unquantized, such as most output heads."""


def read_quantized(
    source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme | None
) -> QuantizedArrays | None:
    """Reads module `name` in canonical form, or returns None if it is not quantized."""
    if scheme is None or not any(f"{name}.{marker}" in source for marker in MARKERS[scheme.method]):
        return None
    module_scheme = scheme.of_module(name) or scheme
    return READERS[scheme.method](source, name, out_size, in_size, module_scheme)
