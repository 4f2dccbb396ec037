"""Quantises the projections of a checkpoint folder and writes the result as a GPTQ checkpoint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from headrace.engine.evaluation.sequence_model import SequenceModel
from headrace.engine.evaluation.token_windows import cut_windows
from headrace.engine.loader.gguf_file import is_gguf
from headrace.engine.loader.model_config import read_model_config
from headrace.engine.loader.weights import Weights
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.quantization import gptq_solver, round_to_nearest
from headrace.engine.quantization.calibration import calibrate
from headrace.engine.quantization.checkpoint_writer import check_target, write_checkpoint
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix
from headrace.engine.quantization.writer import gptq_config, gptq_tensors
from headrace.errors.tree import ConfigError, Unsupported

Report = Callable[[str, float], None]
"""Told what is being done, and which share of it is done."""
WORD_BITS = 32
"""Codes are packed into words of this size, along inputs and outputs."""


@dataclass(frozen=True, slots=True)
class QuantizationSettings:
    """What to make of the projections."""

    method: Literal["gptq", "rtn"] = "gptq"
    """rtn rounds each weight to the nearest code and needs no text."""
    bits: Literal[4, 8] = 4
    group_size: int = 128
    """Inputs that share a scale."""
    symmetric: bool = False
    """The middle code stands for 0 everywhere. Some engines have fast kernels for such files only."""
    sequence_count: int = 64
    """Of the calibration text."""
    sequence_length: int = 256


@dataclass(frozen=True, slots=True)
class QuantizationSummary:
    """What was written."""

    module_count: int
    """Quantised modules."""
    calibration_token_count: int
    byte_count: int
    """Of all tensors."""
    source_byte_count: int


def quantize_checkpoint(
    source: Path, target: Path, settings: QuantizationSettings, text: str, report: Report
) -> QuantizationSummary:
    """Calibrates on `text`. Output head, embeddings, norms, biases and routers stay as they are.

    Raises ConfigError, Unsupported or InvalidCheckpoint; nothing is at `target` then.
    """
    check_target(target)
    config = _read_plain_config(source)
    length = min(settings.sequence_length, config.usual_len)
    model = SequenceModel.load(source, length, precision="float32")
    modules = _projections(model)
    _check_sizes(modules, settings)
    weights = Weights(source)
    kept = [*model.record.tensors, *(f"{name}.weight" for name in model.record.modules if name not in modules)]
    tensors = {name: weights.raw(name) for name in kept}
    source_byte_count = _byte_count(tensors)
    sequences = []
    if settings.method == "gptq":
        sequences = cut_windows(text, source, length, settings.sequence_count)
    for name, matrix in _quantize(model, modules, weights, settings, sequences, report):
        tensors |= gptq_tensors(name, matrix)
        source_byte_count += _byte_count({name: weights.raw(f"{name}.weight")})
    write_checkpoint(source, target, tensors, gptq_config(settings.bits, settings.group_size, settings.symmetric))
    return QuantizationSummary(len(modules), sum(map(len, sequences)), _byte_count(tensors), source_byte_count)


def _read_plain_config(source: Path) -> DecoderConfig:
    if is_gguf(source):
        raise Unsupported(f"{source} is a GGUF file: only folders with plain safetensors weights are quantised.")
    config = read_model_config(source)
    if config.quantization is not None:
        raise Unsupported(f"{source} is quantised already ({config.quantization.method}): start from plain weights.")
    return config


def _projections(model: SequenceModel) -> dict[str, tuple[int, int]]:
    """The modules to quantise, with their shapes."""
    experts = model.config.experts
    names = ("_proj", *(f".{name}" for name in experts.projections)) if experts else ("_proj",)
    return {name: shape for name, shape in model.record.modules.items() if name.endswith(names)}


def _check_sizes(modules: dict[str, tuple[int, int]], settings: QuantizationSettings) -> None:
    per_word = WORD_BITS // settings.bits
    if settings.group_size < per_word or settings.group_size % per_word:
        raise ConfigError(f"Groups of {settings.group_size} do not fill whole words: take a multiple of {per_word}.")
    for name, (out_size, in_size) in modules.items():
        if in_size % settings.group_size:
            raise ConfigError(f"{name} has {in_size} inputs, which groups of {settings.group_size} do not divide.")
        if out_size % per_word:
            raise Unsupported(f"{name} has {out_size} outputs: the format needs a multiple of {per_word}.")


@torch.inference_mode()
def _quantize(
    model: SequenceModel,
    modules: dict[str, tuple[int, int]],
    weights: Weights,
    settings: QuantizationSettings,
    sequences: list[tuple[int, ...]],
    report: Report,
) -> Iterator[tuple[str, QuantizedMatrix]]:
    """Module after module, in the order of the layers."""
    bits, group_size, symmetric = settings.bits, settings.group_size, settings.symmetric
    done = 0
    if settings.method == "rtn":
        for name in modules:
            yield name, round_to_nearest.quantize(weights.raw(f"{name}.weight"), bits, group_size, symmetric)
            done += 1
            report("quantising", done / len(modules))
        return
    for observer, names in calibrate(model, modules, sequences, lambda share: report("calibrating", share)):
        for name in names:
            moments = observer.moments_of(name, modules[name][1])
            weight = weights.raw(f"{name}.weight")
            yield name, gptq_solver.quantize(weight, moments, bits, group_size, symmetric)
            done += 1
            report("quantising", done / len(modules))


def _byte_count(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
