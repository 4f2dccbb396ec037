"""Random checkpoints of gpt-oss whose experts are MXFP4, as OpenAI publishes them."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from tests.libs.engine.gguf_files import ARCHITECTURES, close_writer, open_writer
from tests.libs.engine.tiny_models import make_family
from transformers import PreTrainedModel

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0], np.float32)
GROUP = 32
BIAS = 127


def make_mxfp4(folder: Path, **settings: Any) -> PreTrainedModel:
    """Saves a random model to `folder` and returns it, with the numbers that its codes stand for."""
    model = make_family(folder, "gpt_oss", **({"intermediate_size": 96} | settings))
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


def convert_mxfp4(folder: Path, path: Path) -> Path:
    """Converts the model in `folder` as llama.cpp does: a tensor for gates and one for ups, in GGUF's blocks."""
    config = json.loads((folder / "config.json").read_text())
    writer = open_writer(path, config)
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    tensors = {name: tensor.numpy() for name, tensor in load_file(folder / "model.safetensors").items()}
    names = gguf.get_tensor_name_map(ARCHITECTURES["gpt_oss"], config["num_hidden_layers"])
    for name in [name for name in tensors if name.endswith("_blocks")]:
        stem = name.removesuffix("_blocks")
        tensors[stem] = file_blocks(tensors.pop(name), tensors.pop(f"{stem}_scales"))
    for name, values in split_gates(tensors).items():
        stem = name.removesuffix("_bias")
        found = names.get_name(stem, try_suffixes=(".weight", ".bias"))
        ending = "" if stem.endswith((".weight", ".bias")) else ".bias" if name.endswith("_bias") else ".weight"
        writer.add_tensor(f"{found}{ending}", values, raw_dtype=Kind.MXFP4 if values.dtype == np.uint8 else None)
    close_writer(writer)
    return path


def split_gates(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gates and ups, which alternate, as tensors of their own."""
    split = {}
    for name, values in tensors.items():
        if "gate_up_proj" not in name:
            split[name] = values
            continue
        for place, projection in enumerate(("gate_proj", "up_proj")):
            split[name.replace("gate_up_proj", projection)] = np.ascontiguousarray(values[:, place::2])
    return split


def file_blocks(pairs: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Blocks of GGUF [experts, out, bytes]: an exponent, then the first 16 codes in low bits and the others in high
    ones."""
    codes = np.stack((pairs & 15, pairs >> 4), axis=-1).reshape(*pairs.shape[:-1], GROUP)
    halves = codes[..., : GROUP // 2] | codes[..., GROUP // 2 :] << 4
    return np.concatenate((exponents[..., None], halves), axis=-1).reshape(*pairs.shape[:2], -1)


def numbers_of(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Numbers [..., in] of pairs of codes [..., groups, 16], low bits first, and exponents [..., groups]."""
    pairs = np.stack((E2M1[blocks & 15], E2M1[blocks >> 4]), axis=-1).reshape(*blocks.shape[:-1], GROUP)
    numbers: np.ndarray = np.ldexp(pairs, scales.astype(np.int32)[..., None] - BIAS)
    return numbers.reshape(*scales.shape[:-1], -1).astype(np.float32)
