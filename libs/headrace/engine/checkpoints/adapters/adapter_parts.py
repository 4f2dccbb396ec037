"""Reads the matrices of an adapter from a folder in PEFT's format."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.adapters.adapter_file import AdapterFile
from headrace.engine.checkpoints.adapters.lora_config import CONFIG_FILE, WEIGHTS_FILE, LoraConfig, read_lora_config
from headrace.engine.checkpoints.adapters.target_modules import Product, TargetModule, target_modules
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.errors.tree import InvalidCheckpoint, Unsupported

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AdapterPart:
    """The matrices of one module."""

    module: str
    target: TargetModule
    first: Floats
    """Matrix A [rank, in]."""
    second: Floats
    """Matrix B [out, rank], not scaled."""
    scale: np.float32

    @property
    def scaled_second(self) -> Floats:
        """Matrix B times the scale; infinite where that is too large for fp32."""
        with np.errstate(over="ignore"):
            return self.second * self.scale


AdapterParts = dict[tuple[int, Product], list[AdapterPart]]
"""Modules of an adapter, by layer and product, in column order."""


def read_parts(folder: Path, model: DecoderConfig) -> AdapterParts:
    """Reads the modules of an adapter for `model`.

    Raises InvalidCheckpoint if files are missing, malformed or made for another model, Unsupported if Headrace does not
    support this kind of adapter. Both name the file, and the tensor or field at fault.
    """
    if not model.has_usual_modules:
        raise Unsupported(f"{folder}: adapters of {model.architecture} are not supported: see docs/guide/models.md")
    config = read_lora_config(folder / CONFIG_FILE)
    file = AdapterFile(folder)
    parts: defaultdict[tuple[int, Product], list[AdapterPart]] = defaultdict(list)
    for module, target in _find_targets(folder, file, config, target_modules(model)).items():
        parts[target.layer, target.product].append(_read_part(file, config, module, target))
    return {place: sorted(found, key=lambda part: part.target.columns.start) for place, found in parts.items()}


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


def _read_part(file: AdapterFile, config: LoraConfig, module: str, target: TargetModule) -> AdapterPart:
    rank = config.rank_of(module)
    first = file.read(module, "A", (rank, target.in_size))
    second = file.read(module, "B", (target.out_size, rank))
    with np.errstate(over="ignore"):
        part = AdapterPart(module, target, first, second, np.float32(config.scale_of(module)))
    if not np.isfinite(part.scaled_second).all():
        raise InvalidCheckpoint(f"{config.path}: the matrices of {module}, scaled, are too large for fp32")
    return part
