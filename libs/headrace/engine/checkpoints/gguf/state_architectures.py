"""GGUF's architectures of families with layers that keep a state, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.expert_architectures import check_sigmoid
from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata

_NAMES = {
    **LAYER_NAMES,
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
}
_EXPERT_NAMES = {**_NAMES, "feed_forward.gate": "ffn_gate_inp", "feed_forward.expert_bias": "exp_probs_b.bias"}
_TOP_NAMES = {"model.norm": "token_embd_norm"}
_SPACE_NAMES = {
    **LAYER_NAMES,
    "mixer.in_proj": "ssm_in",
    "mixer.conv1d": "ssm_conv1d",
    "mixer.dt_bias": "ssm_dt.bias",
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
    "mixer.gate": "ffn_gate_inp",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mixer.shared_experts.up_proj": "ffn_up_shexp",
    "mixer.shared_experts.down_proj": "ffn_down_shexp",
}


def _lfm2(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads which layers attend off their numbers of KV heads: the others have none. Feed-forward blocks have the size
    that the file says."""
    counts = metadata.integers("attention.head_count_kv")
    layers = counts * (metadata.integer("block_count") if len(counts) == 1 else 1)
    return {
        "num_key_value_heads": max(counts),
        "layer_types": ["full_attention" if count else "conv" for count in layers],
        "conv_L_cache": metadata.integer("shortconv.l_cache"),
        "block_auto_adjust_ff_dim": False,
        "norm_eps": metadata.number("attention.layer_norm_rms_epsilon"),
    }


def _lfm2_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    check_sigmoid(metadata)
    return {
        **_lfm2(metadata),
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "num_dense_layers": metadata.integer("leading_dense_block_count", 0),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=True),
    }


def _nemotron_h(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads the kind of each layer off its sizes: attention has KV heads, a feed-forward block has inner units. Leaves
    out the last layers, which predict further tokens."""
    count = metadata.integer("block_count") - metadata.integer("nextn_predict_layers", 0)
    heads, inner = metadata.integers("attention.head_count_kv"), metadata.integers("feed_forward_length")
    feeding = "moe" if metadata.integer("expert_count", 0) else "mlp"
    space_heads = metadata.integer("ssm.time_step_rank")
    return {
        "num_hidden_layers": count,
        "num_key_value_heads": max(heads),
        "layer_types": [
            "full_attention" if kv_heads else feeding if units else "linear_attention"
            for kv_heads, units in list(zip(heads, inner, strict=False))[:count]
        ],
        "layer_norm_epsilon": metadata.number("attention.layer_norm_rms_epsilon"),
        "mamba_num_heads": space_heads,
        "mamba_head_dim": metadata.integer("ssm.inner_size") // space_heads,
        "ssm_state_size": metadata.integer("ssm.state_size"),
        "n_groups": metadata.integer("ssm.group_count"),
        "conv_kernel": metadata.integer("ssm.conv_kernel"),
    }


def _nemotron_h_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **_nemotron_h(metadata),
        "n_routed_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "n_shared_experts": metadata.integer("expert_shared_count", 1),
        "moe_shared_expert_intermediate_size": metadata.integer("expert_shared_feed_forward_length"),
        "n_group": metadata.integer("expert_group_count", 1),
        "topk_group": metadata.integer("expert_group_used_count", 1),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=True),
        "moe_latent_size": metadata.integer("moe_latent_size", 0) or None,
    }


STATE_ARCHITECTURES = {
    "lfm2": GgufArchitecture("Lfm2ForCausalLM", _NAMES, _TOP_NAMES, describe=_lfm2),
    "nemotron_h": GgufArchitecture("NemotronHForCausalLM", _SPACE_NAMES, describe=_nemotron_h),
    "nemotron_h_moe": GgufArchitecture("NemotronHForCausalLM", _SPACE_NAMES, describe=_nemotron_h_moe),
    "lfm2moe": GgufArchitecture("Lfm2MoeForCausalLM", _EXPERT_NAMES, _TOP_NAMES, describe=_lfm2_moe),
}
"""Architectures by their GGUF names."""
