"""Decides which modules are quantized, and which reader they need."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.scheme import Method, QuantizationScheme
from headrace.engine.checkpoints.formats import awq, compressed_floats, compressed_tensors, fp8, gptq
from headrace.engine.checkpoints.formats.cut_tensors import CutSource, CutTensors
from headrace.engine.checkpoints.formats.weight_cut import WeightCut
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource

Reader = Callable[[TensorSource, str, int, int, QuantizationScheme], QuantizedArrays]
READERS: dict[Method, Reader] = {
    "awq": awq.read,
    "gptq": gptq.read,
    "compressed-tensors": compressed_tensors.read,
    "float-quantized": compressed_floats.read_numbers,
    "fp4-pack-quantized": compressed_floats.read_pairs,
    "fp8": fp8.read,
}
MARKERS: dict[Method, tuple[str, ...]] = {
    "awq": ("qweight",),
    "gptq": ("qweight",),
    "compressed-tensors": ("weight_packed", "weight_scale"),
    "float-quantized": ("weight_scale",),
    "fp4-pack-quantized": ("weight_packed",),
    "fp8": ("weight_scale_inv",),
}
"""Tensors that only quantized modules have. Modules without them were left unquantized, such as most output heads."""


def read_quantized(
    source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme | None
) -> QuantizedArrays | None:
    """Reads module `name` in canonical form, or returns None if it is not quantized."""
    module_scheme = scheme_of(source, name, scheme)
    if module_scheme is None:
        return None
    return READERS[module_scheme.method](source, name, out_size, in_size, module_scheme)


def read_part(
    source: CutSource, name: str, cut: WeightCut, module_scheme: QuantizationScheme
) -> QuantizedArrays | None:
    """Reads a part of quantized module `name` in canonical form, and of its tensors no more. Returns None if the part
    does not lie apart in them."""
    part = CutTensors(source, name, cut, module_scheme)
    return READERS[module_scheme.method](part, name, *cut.shape, module_scheme) if part.can_read() else None


def read_input_order(
    source: TensorSource, name: str, in_size: int, module_scheme: QuantizationScheme
) -> NDArray[np.int64] | None:
    """Reads the input of each column of quantized module `name`, int64 [in], without its weight. None: in order."""
    if module_scheme.method != "gptq":
        return None
    return gptq.read_input_order(source, name, in_size, module_scheme.group_size or in_size)


def scheme_of(source: TensorSource, name: str, scheme: QuantizationScheme | None) -> QuantizationScheme | None:
    """Returns how module `name` is quantized. None: it is not."""
    if scheme is None or not any(f"{name}.{marker}" in source for marker in MARKERS[scheme.method]):
        return None
    return scheme.of_module(name) or scheme
