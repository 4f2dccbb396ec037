"""Nemotron-H's files, as llama.cpp's converter writes them: state spaces beside attention and feed-forward blocks."""

import re
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

MODEL_TYPE = "nemotron_h"


def has_experts(config: Mapping[str, Any]) -> bool:
    return "moe" in kinds_of(config)


def kinds_of(config: Mapping[str, Any]) -> list[str]:
    return list(config.get("layer_types") or config["layers_block_type"])


def add_spaces(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    """The sizes of each layer, which tell its kind."""
    kinds = kinds_of(config)
    inner = config["moe_intermediate_size"] if has_experts(config) else config["intermediate_size"]
    writer.add_head_count_kv([config["num_key_value_heads"] * (kind == "full_attention") for kind in kinds])
    writer.add_feed_forward_length([inner * (kind in ("mlp", "moe")) for kind in kinds])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_inner_size(config["mamba_num_heads"] * config["mamba_head_dim"])
    writer.add_ssm_state_size(config["ssm_state_size"])
    writer.add_ssm_time_step_rank(config["mamba_num_heads"])
    writer.add_ssm_group_count(config["n_groups"])
    if has_experts(config):
        writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])


def converters_name(name: str) -> str:
    """The name under which the converter looks a tensor up."""
    if found := re.fullmatch(r"backbone(\.layers\.\d+)\.mixer(\.experts\..*)", name):
        return f"model{found[1]}.mlp{found[2]}"
    return name.replace("mixer.dt_bias", "mixer.dt.bias")


def convert_space(name: str, values: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """Decays become negative numbers, vectors of heads columns, and norms rows of groups."""
    part = name.rpartition("mixer.")[2]
    if part == "A_log":
        return -np.exp(values).reshape(-1, 1)
    if part == "D":
        return values.reshape(-1, 1)
    if part == "norm.weight":
        return values.reshape(config["n_groups"], -1)
    return values.squeeze(1) if part == "conv1d.weight" else values
