"""Random checkpoints of gpt-oss whose experts are MXFP4, as OpenAI publishes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_models import make_family
from transformers import PreTrainedModel

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0], np.float32)
GROUP = 32
BIAS = 127


def make_mxfp4(folder: Path, **settings: Any) -> PreTrainedModel:
    """Saves a random model to `folder` and returns it, with the numbers that its codes stand for."""
    model = make_family(folder, "gpt_oss", intermediate_size=96, **settings)
    tensors, generator = load_file(folder / "model.safetensors"), np.random.default_rng(3)
    parameters = dict(model.named_parameters())
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, in_size, out_size = tensors.pop(name).shape
        blocks = generator.integers(0, 256, (experts, out_size, in_size // GROUP, GROUP // 2), np.uint8)
        scales = generator.integers(BIAS - 6, BIAS - 3, blocks.shape[:3], np.uint8)
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = torch.from_numpy(blocks), torch.from_numpy(scales)
        numbers = torch.from_numpy(numbers_of(blocks, scales))
        parameters[name].data.copy_(numbers.transpose(1, 2))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    file = folder / "config.json"
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quantization_config": quantization}))
    return model


def numbers_of(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Numbers [..., in] of pairs of codes [..., groups, 16], low bits first, and exponents [..., groups]."""
    pairs = np.stack((E2M1[blocks & 15], E2M1[blocks >> 4]), axis=-1).reshape(*blocks.shape[:-1], GROUP)
    numbers: np.ndarray = np.ldexp(pairs, scales.astype(np.int32)[..., None] - BIAS)
    return numbers.reshape(*scales.shape[:-1], -1).astype(np.float32)
