"""Files of models with state spaces, Nemotron-H and Granite 4, as llama.cpp's converter writes them."""

import re
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

NEMOTRON, GRANITE = "nemotron_h", "granitemoehybrid"
SIZES = {
    NEMOTRON: ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel"),
    GRANITE: ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv"),
}
"""Keys of config.json: heads, the size of each, and of its state, groups, and taps."""
ATTENTION = ("full_attention", "attention")


def has_spaces(config: Mapping[str, Any]) -> bool:
    return config["model_type"] in SIZES


def has_experts(config: Mapping[str, Any]) -> bool:
    return bool(config.get("num_local_experts")) or "moe" in kinds_of(config)


def kinds_of(config: Mapping[str, Any]) -> list[str]:
    return list(config.get("layer_types") or config["layers_block_type"])


def add_spaces(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    """The sizes of each layer, which tell its kind, and of the states."""
    kinds = kinds_of(config)
    heads, head_size, state_size, groups, taps = (config[key] for key in SIZES[config["model_type"]])
    writer.add_head_count_kv([config["num_key_value_heads"] * (kind in ATTENTION) for kind in kinds])
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_inner_size(heads * head_size)
    writer.add_ssm_state_size(state_size)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)
    if config["model_type"] == GRANITE:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_rope_scaling_finetuned(config.get("position_embedding_type") == "rope")
        return
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    inner = config["moe_intermediate_size"] if has_experts(config) else config["intermediate_size"]
    writer.add_feed_forward_length([inner * (kind in ("mlp", "moe")) for kind in kinds])
    if has_experts(config):
        writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])


def converters_name(name: str, config: Mapping[str, Any]) -> str:
    """The name under which the converter looks a tensor up."""
    if found := re.fullmatch(r"backbone(\.layers\.\d+)\.mixer(\.experts\..*)", name):
        return f"model{found[1]}.mlp{found[2]}"
    if config["model_type"] == GRANITE and not has_experts(config):
        name = name.replace("_shexp", "").replace("shared_mlp.output_linear", "mlp.down_proj")
    return name.replace("mixer.dt_bias", "mixer.dt.bias").replace("mamba.dt_bias", "mamba.dt_proj.bias")


def convert_space(name: str, values: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """Decays become negative numbers, vectors of heads columns, and norms rows of groups."""
    groups = config[SIZES[config["model_type"]][3]]
    if name.endswith(".A_log"):
        return -np.exp(values).reshape(-1, 1)
    if name.endswith(".D"):
        return values.reshape(-1, 1)
    if name.endswith(("mixer.norm.weight", "mamba.norm.weight")):
        return values.reshape(groups, -1)
    return values.squeeze(1) if name.endswith("conv1d.weight") else values
