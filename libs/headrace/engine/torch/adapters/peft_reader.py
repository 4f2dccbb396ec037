"""Reads an adapter from a folder in PEFT's format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.adapters.adapter_parts import AdapterPart, AdapterParts, read_parts
from headrace.engine.checkpoints.adapters.lora_config import CONFIG_FILE
from headrace.engine.checkpoints.adapters.target_modules import TargetModule
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.torch.adapters.adapter import Adapter, LayerUpdates
from headrace.engine.torch.adapters.low_rank import LowRankUpdate
from headrace.engine.torch.operators.operators import Operators
from headrace.errors.tree import InvalidCheckpoint


def read_adapter(
    name: str,
    folder: Path,
    model: DecoderConfig,
    operators: Operators,
    dtype: torch.dtype,
    device: torch.device,
    cut: Callable[[AdapterParts], AdapterParts] = lambda parts: parts,
) -> Adapter:
    """Reads an adapter for `model`, whose weights may be quantized; the adapter's own weights are in `dtype`. `cut`
    takes the part of one process out of it. Raises InvalidCheckpoint or Unsupported, see `read_parts`."""
    layers = tuple(LayerUpdates() for _ in range(model.layer_count))
    for (layer, product), parts in cut(read_parts(folder, model)).items():
        converted = [_convert(folder, part, dtype) for part in parts]
        layers[layer][product] = _joined(converted, operators, device)
    return Adapter(name, layers)


@dataclass(frozen=True, slots=True)
class _Part:
    """The matrices of one module."""

    target: TargetModule
    first: Tensor
    """Matrix A [rank, in]."""
    second: Tensor
    """Matrix B times the scale: [out, rank]."""


def _convert(folder: Path, part: AdapterPart, dtype: torch.dtype) -> _Part:
    first, second = (torch.from_numpy(each).to(dtype) for each in (part.first, part.scaled_second))
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        path = folder / CONFIG_FILE
        raise InvalidCheckpoint(f"{path}: the matrices of {part.module}, scaled, are too large for {dtype}")
    return _Part(part.target, first, second)


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
