"""Tiny checkpoints with quantized projections, in the layouts of AutoAWQ, AutoGPTQ and llm-compressor."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.quantization.writer import awq_config, awq_tensors, gptq_config, gptq_tensors

GROUP = 32
Method = Literal["awq", "gptq", "int8", "compressed-tensors"]


def quantize_projections(folder: Path, method: Method, endings: tuple[str, ...] = ("_proj.weight",)) -> None:
    """Quantizes the projections of a tiny checkpoint in place: as AWQ does, as GPTQ with inputs in an order of their
    own (desc_act), as GPTQ in 8 bits, or as llm-compressor in 8 bits. `endings` are those of their names."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith(endings)]:
        weight = tensors.pop(f"{name}.weight").float()
        bits = 4 if method in ("awq", "gptq") else 8
        matrix = round_to_nearest.quantize(weight, bits, GROUP, method != "awq")
        tensors |= TENSORS[method](name, matrix)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": CONFIGS[method]}))


def _gptq_in_activation_order(name: str, matrix: QuantizedMatrix) -> dict[str, Tensor]:
    tensors = gptq_tensors(name, matrix)
    groups = tensors[f"{name}.g_idx"]
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(len(groups)))
    return tensors | {f"{name}.g_idx": groups[order]}


def _compressed_int8(name: str, matrix: QuantizedMatrix) -> dict[str, Tensor]:
    codes = matrix.codes.to(torch.int16) - 128
    return {f"{name}.weight": codes.to(torch.int8), f"{name}.weight_scale": matrix.scales}


TENSORS = {
    "awq": awq_tensors,
    "gptq": _gptq_in_activation_order,
    "int8": gptq_tensors,
    "compressed-tensors": _compressed_int8,
}
CONFIGS: dict[str, Mapping[str, Any]] = {
    "awq": awq_config(GROUP),
    "gptq": gptq_config(4, GROUP, True),
    "int8": gptq_config(8, GROUP, True),
    "compressed-tensors": {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP},
            }
        },
    },
}
