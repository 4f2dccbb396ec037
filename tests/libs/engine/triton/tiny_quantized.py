"""Tiny random checkpoints in quantized formats."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_models import save_random
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.offline.quantization.writer import awq_config, awq_tensors, gptq_config, gptq_tensors

GROUP = 32
METHODS = ("awq", "gptq", "int8")
SIZES = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}


def quantize_tiny(folder: Path, method: str, **settings: Any) -> None:
    """Saves a tiny Llama whose projections are quantized: as AWQ does, as GPTQ with inputs in an order of their own
    (desc_act), or as GPTQ in 8 bits."""
    save_random(folder, {"model_type": "llama", **SIZES, **settings})
    bits = 8 if method == "int8" else 4
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]:
        weight = tensors.pop(f"{name}.weight").float()
        tensors |= _pack(name, round_to_nearest.quantize(weight, bits, GROUP, method != "awq"), method)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    _write_quantization(folder, awq_config(GROUP) if method == "awq" else gptq_config(bits, GROUP, True))


def _pack(name: str, matrix: QuantizedMatrix, method: str) -> dict[str, Tensor]:
    if method == "awq":
        return awq_tensors(name, matrix)
    tensors = gptq_tensors(name, matrix)
    if method == "gptq":
        groups = tensors[f"{name}.g_idx"]
        generator = torch.Generator().manual_seed(len(groups))
        tensors[f"{name}.g_idx"] = groups[torch.randperm(len(groups), generator=generator)]
    return tensors


def _write_quantization(folder: Path, config: Mapping[str, Any]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": config}))
