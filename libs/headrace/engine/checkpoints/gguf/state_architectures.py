"""GGUF's architectures of families with layers that keep a state, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.expert_architectures import check_sigmoid, shared_names
from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.engine.checkpoints.gguf.later_architectures import block_factors

_NAMES = {
    **LAYER_NAMES,
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
}
_EXPERT_NAMES = {**_NAMES, "feed_forward.gate": "ffn_gate_inp", "feed_forward.expert_bias": "exp_probs_b.bias"}
_BIASES = {"mamba_conv_bias": ".ssm_conv1d.bias", "mamba_proj_bias": ".ssm_in.bias"}
_TOP_NAMES = {"model.norm": "token_embd_norm"}


def _space_names(module: str) -> dict[str, str]:
    """Names the tensors of a state space, whose block is `module` in Hugging Face checkpoints."""
    names = {
        "in_proj": "ssm_in",
        "conv1d": "ssm_conv1d",
        "dt_bias": "ssm_dt.bias",
        "A_log": "ssm_a",
        "D": "ssm_d",
        "norm": "ssm_norm",
        "out_proj": "ssm_out",
    }
    return {f"{module}.{name}": found for name, found in names.items()}


_NEMOTRON_NAMES = {
    **LAYER_NAMES,
    **_space_names("mixer"),
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


def _granite_hybrid(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads which layers attend off their numbers of KV heads."""
    counts, space_heads = metadata.integers("attention.head_count_kv"), metadata.integer("ssm.time_step_rank")
    expert_count = metadata.integer("expert_count", 0)
    experts = {"num_experts_per_tok": metadata.integer("expert_used_count")} if expert_count else {}
    return {
        **block_factors(metadata),
        **experts,
        "num_local_experts": expert_count,
        "shared_intermediate_size": metadata.integer("expert_shared_feed_forward_length", 0),
        "fuses_shared_gates": False,
        "num_key_value_heads": max(counts),
        "layer_types": ["attention" if count else "mamba" for count in counts],
        "position_embedding_type": "rope" if metadata.flag("rope.scaling.finetuned", default=True) else "nope",
        "mamba_n_heads": space_heads,
        "mamba_d_head": metadata.integer("ssm.inner_size") // space_heads,
        "mamba_d_state": metadata.integer("ssm.state_size"),
        "mamba_n_groups": metadata.integer("ssm.group_count"),
        "mamba_d_conv": metadata.integer("ssm.conv_kernel"),
    }


def _shared_size(shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Reads what only tensors tell: the size of the feed-forward block of models without experts, and biases."""
    biases = {key: any(name.endswith(end) for name in shapes) for key, end in _BIASES.items()}
    gates = shapes.get("blk.0.ffn_gate.weight")
    return biases if gates is None else {**biases, "shared_intermediate_size": gates[0]}


STATE_ARCHITECTURES = {
    "lfm2": GgufArchitecture("Lfm2ForCausalLM", _NAMES, _TOP_NAMES, describe=_lfm2),
    "nemotron_h": GgufArchitecture("NemotronHForCausalLM", _NEMOTRON_NAMES, describe=_nemotron_h),
    "nemotron_h_moe": GgufArchitecture("NemotronHForCausalLM", _NEMOTRON_NAMES, describe=_nemotron_h_moe),
    "granitehybrid": GgufArchitecture(
        "GraniteMoeHybridForCausalLM",
        {**LAYER_NAMES, **_space_names("mamba"), **shared_names("block_sparse_moe.shared_mlp")},
        interleaves_heads=True,
        describe=_granite_hybrid,
        examine=_shared_size,
    ),
    "lfm2moe": GgufArchitecture("Lfm2MoeForCausalLM", _EXPERT_NAMES, _TOP_NAMES, describe=_lfm2_moe),
}
"""Architectures by their GGUF names."""
