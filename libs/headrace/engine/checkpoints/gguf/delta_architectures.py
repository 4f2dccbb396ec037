"""GGUF's architectures of families with gated delta rules, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.expert_architectures import shared_names
from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.engine.checkpoints.gguf.later_architectures import partial_rotation

_RECURRENT_LAYERS = "attention.recurrent_layers"
_MODULE = "linear_attn"
_NAMES = {
    **LAYER_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    f"{_MODULE}.in_proj_qkv": "attn_qkv",
    f"{_MODULE}.in_proj_z": "attn_gate",
    f"{_MODULE}.in_proj_b": "ssm_beta",
    f"{_MODULE}.in_proj_a": "ssm_alpha",
    f"{_MODULE}.in_proj_ba": "ssm_ba",
    f"{_MODULE}.in_proj_qkvz": "ssm_in",
    f"{_MODULE}.conv1d": "ssm_conv1d",
    f"{_MODULE}.dt_bias": "ssm_dt.bias",
    f"{_MODULE}.A_log": "ssm_a",
    f"{_MODULE}.norm": "ssm_norm",
    f"{_MODULE}.out_proj": "ssm_out",
    **shared_names("mlp.shared_expert"),
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}


def _delta(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Leaves out the last layers, which predict further tokens. Reads which layers attend off a list of the others, or
    off their distance."""
    count = metadata.integer("block_count") - metadata.integer("nextn_predict_layers", 0)
    interval, heads = metadata.integer("full_attention_interval", 4), metadata.integer("ssm.time_step_rank")
    recurs = [(index + 1) % interval for index in range(count)]
    if metadata.has(_RECURRENT_LAYERS):
        recurs = [int(each) for each in metadata.numbers(_RECURRENT_LAYERS)[:count]]
    return {
        **partial_rotation(metadata),
        "num_hidden_layers": count,
        "layer_types": ["linear_attention" if each else "full_attention" for each in recurs],
        "full_attention_interval": interval,
        "linear_conv_kernel_dim": metadata.integer("ssm.conv_kernel"),
        "linear_num_key_heads": metadata.integer("ssm.group_count"),
        "linear_num_value_heads": heads,
        "linear_key_head_dim": metadata.integer("ssm.state_size"),
        "linear_value_head_dim": metadata.integer("ssm.inner_size") // heads,
        "tiles_heads": True,
    }


def _delta_experts(metadata: GgufMetadata) -> Mapping[str, Any]:
    size = metadata.integer("expert_feed_forward_length")
    return {
        **_delta(metadata),
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": size,
        "shared_expert_intermediate_size": metadata.integer("expert_shared_feed_forward_length", size),
    }


def _next(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {**_delta_experts(metadata), "tiles_heads": False}


def _joins_inputs(shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Reads whether a file has one matrix for all inputs of a layer, as the first ones of Qwen3-Next do."""
    return {"groups_inputs": any(name.endswith(".ssm_in.weight") for name in shapes)}


DELTA_ARCHITECTURES = {
    "qwen3next": GgufArchitecture(
        "Qwen3NextForCausalLM", _NAMES, norm_offset=1.0, describe=_next, examine=_joins_inputs
    ),
    "qwen35": GgufArchitecture("Qwen3_5ForCausalLM", _NAMES, norm_offset=1.0, describe=_delta),
    "qwen35moe": GgufArchitecture("Qwen3_5MoeForCausalLM", _NAMES, norm_offset=1.0, describe=_delta_experts),
}
"""Architectures by their GGUF names."""
