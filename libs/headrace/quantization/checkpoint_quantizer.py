"""Quantizes the projections of a checkpoint folder and writes the result as a GPTQ or AWQ checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.errors.tree import ConfigError, Unsupported
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.token_windows import cut_windows
from headrace.quantization.checkpoint_writer import check_target, write_checkpoint
from headrace.quantization.layer_quantizer import Modules, by_layer, quantize_layers
from headrace.quantization.quantization_settings import QuantizationSettings
from headrace.quantization.run_description import describe_run
from headrace.quantization.unfinished_checkpoint import UnfinishedCheckpoint, open_unfinished
from headrace.quantization.writer import awq_config, gptq_config

Report = Callable[[str, float], None]
"""Callback that takes the current activity and the share done."""


@dataclass(frozen=True, slots=True)
class QuantizationSummary:
    """Summary of a written checkpoint."""

    module_count: int
    """Number of quantized modules."""
    calibration_token_count: int
    byte_count: int
    """Size of all tensors in bytes."""
    source_byte_count: int
    resumed_layer_count: int
    """Number of layers that an earlier run had finished."""


def quantize_checkpoint(
    source: Path, target: Path, settings: QuantizationSettings, text: str, report: Report
) -> QuantizationSummary:
    """Calibrates on `text`. Output head, embeddings, norms, biases and routers stay unquantized.

    A run with the same arguments resumes a killed one and writes the same bytes if torch has the same number of
    threads. Raises ConfigError, Unsupported or InvalidCheckpoint; nothing is left at `target` then.
    """
    check_target(target)
    config = _read_plain_config(source)
    length = min(settings.sequence_length, config.usual_length)
    model = SequenceModel.load(source, length, precision="float32")
    modules = _projections(model)
    _check_sizes(modules, settings)
    weights = Weights(source)
    sequences = [] if settings.method == "rtn" else cut_windows(text, source, length, settings.sequence_count)
    with open_unfinished(target, describe_run(source, settings, text)) as unfinished:
        resumed = _finish_layers(unfinished, model, modules, weights, settings, sequences, report)
        originals = [*model.record.tensors, *(f"{name}.weight" for name in model.record.modules)]
        tensors = {name: weights.raw(name) for name in originals}
        source_byte_count = _byte_count(tensors)
        for name in modules:
            del tensors[f"{name}.weight"]
        for index, _ in by_layer(modules):
            tensors |= unfinished.load(index)
        write_checkpoint(source, target, unfinished.draft, tensors, _scheme(settings, model, modules))
    token_count = sum(map(len, sequences))
    return QuantizationSummary(len(modules), token_count, _byte_count(tensors), source_byte_count, resumed)


def _finish_layers(
    unfinished: UnfinishedCheckpoint,
    model: SequenceModel,
    modules: Modules,
    weights: Weights,
    settings: QuantizationSettings,
    sequences: list[tuple[int, ...]],
    report: Report,
) -> int:
    """Quantizes the remaining layers. Returns the number of those already finished."""
    left = {name: modules[name] for index, names in by_layer(modules) if not unfinished.has(index) for name in names}
    layer_count, left_count = len(by_layer(modules)), len(by_layer(left))
    resumed = done = layer_count - left_count
    if left:
        for index, tensors in quantize_layers(
            model, left, weights, settings, sequences, lambda share: report("calibrating", share)
        ):
            unfinished.save(index, tensors)
            done += 1
            report("quantizing", done / layer_count)
    return resumed


def _read_plain_config(source: Path) -> DecoderConfig:
    if is_gguf(source):
        raise Unsupported(f"{source} is a GGUF file: only folders with plain safetensors weights are quantized")
    config = read_model_config(source)
    if config.quantization is not None:
        raise Unsupported(f"{source} is quantized already ({config.quantization.method}): start from plain weights")
    if not config.has_usual_modules:
        raise Unsupported(
            f"quantizing {config.architecture} is not supported: its layers are not laid out like Llama's"
        )
    return config


def _projections(model: SequenceModel) -> Modules:
    """Returns the modules to quantize."""
    experts = model.config.experts
    names = ("_proj", *(f".{name}" for name in experts.projections)) if experts else ("_proj",)
    return {name: shape for name, shape in model.record.modules.items() if name.endswith(names)}


def _check_sizes(modules: Modules, settings: QuantizationSettings) -> None:
    for name, (out_size, in_size) in modules.items():
        if in_size % settings.group_size:
            raise ConfigError(f"{name} has {in_size} inputs, which groups of {settings.group_size} do not divide")
        if out_size % settings.per_word:
            raise Unsupported(f"{name} has {out_size} outputs: the format needs a multiple of {settings.per_word}")


def _scheme(settings: QuantizationSettings, model: SequenceModel, modules: Modules) -> Mapping[str, Any]:
    """Returns the `quantization_config` for config.json."""
    if settings.method == "awq":
        routers = (name for name in model.record.modules if name.endswith(".gate") and name not in modules)
        return awq_config(settings.group_size, ["lm_head", *routers])
    return gptq_config(settings.bits, settings.group_size, settings.symmetric)


def _byte_count(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
