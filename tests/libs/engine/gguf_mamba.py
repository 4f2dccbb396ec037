"""GGUF files of Falcon-H1 and Mamba-2 as llama.cpp's converter writes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tests.libs.engine.gguf_files import close_writer, load_arrays

FALCON, MAMBA = "falcon_h1", "mamba2"
ARCHITECTURES = {FALCON: gguf.MODEL_ARCH.FALCON_H1, MAMBA: gguf.MODEL_ARCH.MAMBA2}
"""Architectures of GGUF, by `model_type`."""
SIZES = {
    FALCON: ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv"),
    MAMBA: ("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel"),
}
"""Keys of config.json: heads, the size of each, and of its state, groups, and taps."""
Config = Mapping[str, Any]


def convert_mamba(folder: Path, path: Path) -> Path:
    """Converts a Hugging Face folder."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    add_metadata(writer, config)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in load_arrays(folder).items():
        target = names.get_name(name.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        assert target is not None, name
        writer.add_tensor(target, np.ascontiguousarray(convert_values(name, values, config), dtype=np.float32))
    close_writer(writer)
    return path


def add_metadata(writer: gguf.GGUFWriter, config: Config) -> None:
    """Sizes. Mamba-2's converter writes zeros for those of blocks that it does not have."""
    heads, head_size, state_size, groups, taps = (config[key] for key in SIZES[config["model_type"]])
    is_falcon = config["model_type"] == FALCON
    writer.add_context_length(1 << 20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"] if is_falcon else 0)
    writer.add_head_count(config["num_attention_heads"] if is_falcon else 0)
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_inner_size(heads * head_size)
    writer.add_ssm_state_size(state_size)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"] if is_falcon else config["layer_norm_epsilon"])
    if is_falcon:
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_key_length(config["hidden_size"] // config["num_attention_heads"])
        writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])


def convert_values(name: str, values: np.ndarray, config: Config) -> np.ndarray:
    """Decays become negative numbers, vectors of heads columns, and norms rows of groups. Falcon-H1's factors go into
    its weights."""
    heads, head_size, state_size, groups, _ = (config[key] for key in SIZES[config["model_type"]])
    if name.endswith(".A_log"):
        return -np.exp(values).reshape(-1, 1)
    if name.endswith(".D"):
        return values.reshape(-1, 1)
    if name.endswith(("mixer.norm.weight", "mamba.norm.weight")):
        return values.reshape(groups, -1)
    if "conv1d.weight" in name:
        return values.squeeze(1)
    if config["model_type"] == MAMBA:
        return values
    if "mamba.in_proj" in name:
        sizes = (heads * head_size, heads * head_size, groups * state_size, groups * state_size, heads)
        return values * np.repeat(np.array(config["ssm_multipliers"]) * config["ssm_in_multiplier"], sizes)[:, None]
    before = config["attention_in_multiplier"]
    gate, down = config["mlp_multipliers"]
    factors = {
        "mamba.out_proj": config["ssm_out_multiplier"],
        "q_proj": before,
        "k_proj": before * config["key_multiplier"],
        "v_proj": before,
        "o_proj": config["attention_out_multiplier"],
        "gate_proj": gate,
        "down_proj": down,
        "lm_head": config["lm_head_multiplier"],
        "embed_tokens": config["embedding_multiplier"],
    }
    return values * next((factor for part, factor in factors.items() if part in name), 1.0)
