"""Reads an adapter from the folder that PEFT saved it to."""

from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.adapters.adapter import Adapter, LayerUpdates, Product
from headrace.engine.adapters.adapter_file import WEIGHTS_FILE, AdapterFile
from headrace.engine.adapters.lora_config import CONFIG_FILE, LoraConfig, read_lora_config
from headrace.engine.adapters.target_modules import TargetModule, target_modules
from headrace.engine.layers.low_rank import LowRankUpdate
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.errors.tree import InvalidCheckpoint, Unsupported


def read_adapter(name: str, folder: Path, model: DecoderConfig, dtype: torch.dtype, device: torch.device) -> Adapter:
    """An adapter for `model`, whose weights may be quantised: its own are in `dtype`.

    Raises InvalidCheckpoint where files are missing, malformed or made for another model, Unsupported where the
    adapter is of a kind that Headrace does not have. Both name the file, and the tensor or field at fault.
    """
    config = read_lora_config(folder / CONFIG_FILE)
    file = AdapterFile(folder)
    targets = _find_targets(folder, file, config, target_modules(model))
    layers: list[defaultdict[Product, tuple[LowRankUpdate, ...]]] = [
        defaultdict(tuple) for _ in range(model.layer_count)
    ]
    for module, target in targets.items():
        first, second = _read_pair(file, config, module, target, dtype)
        update = LowRankUpdate.build(target.columns, first.to(device), second.to(device))
        layers[target.layer][target.product] += (update,)
    return Adapter(name, tuple(LayerUpdates(layer) for layer in layers))


def _find_targets(
    folder: Path, file: AdapterFile, config: LoraConfig, known: dict[str, TargetModule]
) -> dict[str, TargetModule]:
    """The modules that the file has matrices for, which must be those that the settings name."""
    path = folder / WEIGHTS_FILE
    modules = file.modules
    for module in modules:
        if module not in known:
            raise Unsupported(
                f"{path}: module {module} cannot be adapted: the base model has no such linear module in its layers, "
                "and heads, embeddings and experts are not supported."
            )
        if not config.is_target(module):
            raise InvalidCheckpoint(f"{path} has matrices for {module}, which {CONFIG_FILE} does not name.")
    if not modules:
        raise InvalidCheckpoint(f"{path} has no tensors.")
    if missing := next((module for module in known if config.is_target(module) and module not in modules), None):
        raise InvalidCheckpoint(f"{path} has no matrices for {missing}, which {CONFIG_FILE} names.")
    return {module: known[module] for module in modules}


def _read_pair(
    file: AdapterFile, config: LoraConfig, module: str, target: TargetModule, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A [rank, in] and scale * B [out, rank]."""
    rank = config.rank_of(module)
    first = file.read(module, "A", (rank, target.in_size))
    second = file.read(module, "B", (target.out_size, rank)) * config.scale_of(module)
    first, second = first.to(dtype), second.to(dtype)
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        raise InvalidCheckpoint(f"{config.path}: the matrices of {module}, scaled, are too large for {dtype}.")
    return first, second
