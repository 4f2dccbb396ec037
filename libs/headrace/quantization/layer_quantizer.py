"""Quantizes the projections of a decoder layer by layer, with any of the methods."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.finite_tensor import RawTensors, take_finite
from headrace.evaluation.sequence_model import SequenceModel
from headrace.quantization import gptq_solver
from headrace.quantization.awq_layer import AwqLayer
from headrace.quantization.calibration import calibrate, layer_of
from headrace.quantization.input_observer import InputObserver
from headrace.quantization.quantization_settings import QuantizationSettings
from headrace.quantization.writer import gptq_tensors

Modules = dict[str, tuple[int, int]]
"""Shapes [out, in] of modules, by name."""


@torch.inference_mode()
def quantize_layers(
    model: SequenceModel,
    modules: Modules,
    source: RawTensors,
    settings: QuantizationSettings,
    sequences: Sequence[tuple[int, ...]],
    report: Callable[[float], None],
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Yields the index and the stored tensors of each layer in turn. Calls `report` during calibration.

    All layers see the outputs of unquantized layers, so no layer depends on which others are done.
    """
    if settings.method == "rtn":
        for index, names in by_layer(modules):
            yield index, _round(names, source, settings)
        return
    for observer, part in calibrate(model, modules, sequences, report):
        for index, names in by_layer(part):
            if settings.method == "awq":
                yield index, AwqLayer(model.config, index, names, source, observer, settings.group_size).quantize()
            else:
                yield index, _solve(names, source, observer, settings)


def by_layer(names: Sequence[str] | Modules) -> list[tuple[int, list[str]]]:
    """Returns the index of each layer, in order, and its modules."""
    layers: dict[int, list[str]] = {}
    for name in names:
        layers.setdefault(layer_of(name), []).append(name)
    return sorted(layers.items())


def _round(names: Sequence[str], source: RawTensors, settings: QuantizationSettings) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in names:
        weight = take_finite(source, f"{name}.weight")
        matrix = round_to_nearest.quantize(weight, settings.bits, settings.group_size, settings.symmetric)
        tensors |= gptq_tensors(name, matrix)
    return tensors


def _solve(
    names: Sequence[str], source: RawTensors, observer: InputObserver, settings: QuantizationSettings
) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in names:
        weight = take_finite(source, f"{name}.weight")
        moments = observer.moments_of(name, weight.shape[1])
        matrix = gptq_solver.quantize(weight, moments, settings.bits, settings.group_size, settings.symmetric)
        tensors |= gptq_tensors(name, matrix)
    return tensors
