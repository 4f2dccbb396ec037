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
_RMS_EPSILON = "attention.layer_norm_rms_epsilon"


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
    "mixer.fc1_latent_proj": "ffn_latent_down",
    "mixer.fc2_latent_proj": "ffn_latent_up",
    "mixer.shared_experts.up_proj": "ffn_up_shexp",
    "mixer.shared_experts.down_proj": "ffn_down_shexp",
}
_FALCON_NAMES = {
    **LAYER_NAMES,
    **_space_names("mamba"),
    # The one name without an ending.
    "post_attention_layernorm.weight": "ffn_norm",
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
        "norm_eps": metadata.number(_RMS_EPSILON),
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


def _space_sizes(
    metadata: GgufMetadata, heads: str, head_size: str, state_size: str, groups: str, taps: str
) -> Mapping[str, int]:
    """Reads the sizes of a state space, under the given keys of config.json."""
    head_count = metadata.integer("ssm.time_step_rank")
    return {
        heads: head_count,
        head_size: metadata.integer("ssm.inner_size") // head_count,
        state_size: metadata.integer("ssm.state_size"),
        groups: metadata.integer("ssm.group_count"),
        taps: metadata.integer("ssm.conv_kernel"),
    }


_MAMBA_KEYS = ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv")


def _nemotron_h(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads the kind of each layer off its sizes: attention has KV heads, a feed-forward block has inner units. Leaves
    out the last layers, which predict further tokens."""
    count = metadata.integer("block_count") - metadata.integer("nextn_predict_layers", 0)
    heads, inner = metadata.integers("attention.head_count_kv"), metadata.integers("feed_forward_length")
    feeding = "moe" if metadata.integer("expert_count", 0) else "mlp"
    keys = ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
    return {
        **_space_sizes(metadata, *keys),
        "num_hidden_layers": count,
        "num_key_value_heads": max(heads),
        "layer_types": [
            "full_attention" if kv_heads else feeding if units else "linear_attention"
            for kv_heads, units in list(zip(heads, inner, strict=False))[:count]
        ],
        # Files may have the one of centered norms alone, which llama.cpp takes for both.
        **({"layer_norm_epsilon": metadata.number(_RMS_EPSILON)} if metadata.has(_RMS_EPSILON) else {}),
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
    counts = metadata.integers("attention.head_count_kv")
    expert_count = metadata.integer("expert_count", 0)
    experts = {"num_experts_per_tok": metadata.integer("expert_used_count")} if expert_count else {}
    return {
        **block_factors(metadata),
        **experts,
        **_space_sizes(metadata, *_MAMBA_KEYS),
        "num_local_experts": expert_count,
        "shared_intermediate_size": metadata.integer("expert_shared_feed_forward_length", 0),
        "fuses_shared_gates": False,
        "num_key_value_heads": max(counts),
        "layer_types": ["attention" if count else "mamba" for count in counts],
        "position_embedding_type": "rope" if metadata.flag("rope.scaling.finetuned", default=True) else "nope",
    }


def _falcon_h1(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Leaves all factors at one: converters multiply the weights by them."""
    return {
        **_space_sizes(metadata, *_MAMBA_KEYS),
        "mamba_d_ssm": metadata.integer("ssm.inner_size"),
        "mamba_norm_before_gate": False,
    }


def _mamba2(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Sets the sizes of attention and of feed-forward blocks, which no layer has, to one."""
    return {
        **_space_sizes(metadata, "num_heads", "head_dim", "state_size", "n_groups", "conv_kernel"),
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "intermediate_size": 1,
        "layer_norm_epsilon": metadata.number(_RMS_EPSILON),
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
    "falcon-h1": GgufArchitecture(
        "FalconH1ForCausalLM",
        _FALCON_NAMES,
        biased_modules={"mamba_conv_bias": "ssm_conv1d"},
        optional_modules={"mamba_rms_norm": "ssm_norm"},
        describe=_falcon_h1,
    ),
    "mamba2": GgufArchitecture(
        "Mamba2ForCausalLM",
        {**LAYER_NAMES, **_space_names("mixer")},
        biased_modules={"use_conv_bias": "ssm_conv1d", "use_bias": "ssm_in"},
        describe=_mamba2,
    ),
    "lfm2moe": GgufArchitecture("Lfm2MoeForCausalLM", _EXPERT_NAMES, _TOP_NAMES, describe=_lfm2_moe),
}
"""Architectures by their GGUF names."""
