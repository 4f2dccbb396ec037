"""Reads an adapter from a folder in PEFT's format."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.adapters.adapter_file import AdapterFile
from headrace.engine.checkpoints.adapters.lora_config import CONFIG_FILE, WEIGHTS_FILE, LoraConfig, read_lora_config
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.torch.adapters.adapter import Adapter, LayerUpdates, Product
from headrace.engine.torch.adapters.low_rank import LowRankUpdate
from headrace.engine.torch.adapters.target_modules import TargetModule, target_modules
from headrace.engine.torch.operators.operators import Operators
from headrace.errors.tree import InvalidCheckpoint, Unsupported


def read_adapter(
    name: str, folder: Path, model: DecoderConfig, operators: Operators, dtype: torch.dtype, device: torch.device
) -> Adapter:
    """Reads an adapter for `model`, whose weights may be quantized; the adapter's own weights are in `dtype`.

    Raises InvalidCheckpoint if files are missing, malformed or made for another model, Unsupported if Headrace does not
    support this kind of adapter. Both name the file, and the tensor or field at fault.
    """
    config = read_lora_config(folder / CONFIG_FILE)
    file = AdapterFile(folder)
    targets = _find_targets(folder, file, config, target_modules(model))
    parts: defaultdict[tuple[int, Product], list[_Part]] = defaultdict(list)
    for module, target in targets.items():
        parts[target.layer, target.product].append(_read_part(file, config, module, target, dtype))
    layers = tuple(LayerUpdates() for _ in range(model.layer_count))
    for (layer, product), found in parts.items():
        layers[layer][product] = _joined(found, operators, device)
    return Adapter(name, layers)


@dataclass(frozen=True, slots=True)
class _Part:
    """The matrices of one module."""

    target: TargetModule
    first: Tensor
    """Matrix A [rank, in]."""
    second: Tensor
    """Matrix B times the scale: [out, rank]."""


def _joined(parts: Sequence[_Part], operators: Operators, device: torch.device) -> LowRankUpdate:
    """Joins the updates of modules computed as one product: stacks the A matrices and puts the B matrices on a
    diagonal. An extra call would cost more than multiplying the zeros."""
    first = torch.cat([part.first for part in parts])
    second = first.new_zeros(parts[0].target.product_size, len(first))
    start = 0
    for part in parts:
        end = start + len(part.first)
        second[part.target.columns, start:end] = part.second
        start = end
    return LowRankUpdate(operators.linear(first.to(device)), operators.linear(second.to(device)))


def _find_targets(
    folder: Path, file: AdapterFile, config: LoraConfig, known: dict[str, TargetModule]
) -> dict[str, TargetModule]:
    """Returns the modules that the file has matrices for. They must be the ones the settings name."""
    path = folder / WEIGHTS_FILE
    modules = file.modules
    for module in modules:
        if module not in known:
            raise Unsupported(
                f"{path}: module {module} cannot be adapted: the base model has no such linear module in its layers, "
                "and heads, embeddings and experts are not supported"
            )
        if not config.is_target(module):
            raise InvalidCheckpoint(f"{path} has matrices for {module}, which {CONFIG_FILE} does not name")
    if not modules:
        raise InvalidCheckpoint(f"{path} has no tensors")
    if missing := next((module for module in known if config.is_target(module) and module not in modules), None):
        raise InvalidCheckpoint(f"{path} has no matrices for {missing}, which {CONFIG_FILE} names")
    return {module: known[module] for module in modules}


def _read_part(file: AdapterFile, config: LoraConfig, module: str, target: TargetModule, dtype: torch.dtype) -> _Part:
    rank = config.rank_of(module)
    first = file.read(module, "A", (rank, target.in_size))
    second = file.read(module, "B", (target.out_size, rank)) * config.scale_of(module)
    first, second = first.to(dtype), second.to(dtype)
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        raise InvalidCheckpoint(f"{config.path}: the matrices of {module}, scaled, are too large for {dtype}")
    return _Part(target, first, second)
