"""GGUF's architectures of the families with experts that came after Qwen3-MoE, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.engine.checkpoints.gguf.later_architectures import granite_factors, partial_rotation
from headrace.errors.tree import Unsupported

SIGMOID = 2
"""Number of the scores of each expert alone, among GGUF's gating functions."""
_COUNT_WITHOUT_NORMS = 128
"""Experts of Llama 4 Maverick."""


def shared_names(module: str) -> dict[str, str]:
    """Names the projections of the shared expert, whose block is `module` in Hugging Face checkpoints."""
    return {f"{module}.{name}_proj": f"ffn_{name}_shexp" for name in ("gate", "up", "down")}


def _with_bias(module: str) -> dict[str, str]:
    """Names the numbers that the choice of experts adds to their scores."""
    return {f"{module}.e_score_correction_bias": "exp_probs_b.bias"}


def _qwen2_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads sizes that older files leave out as llama.cpp does, from that of a dense feed-forward block."""
    dense_size = metadata.integer("feed_forward_length")
    used_count = metadata.integer("expert_used_count")
    return {
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": used_count,
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length", dense_size // used_count),
        "shared_expert_intermediate_size": metadata.integer("expert_shared_feed_forward_length", dense_size),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=False),
    }


def _olmoe(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=False),
    }


def _glm4_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Leaves out the last layers, which predict further tokens."""
    return {
        **_deepseek(metadata, normalizes=True),
        **partial_rotation(metadata),
        "num_hidden_layers": metadata.integer("block_count") - metadata.integer("nextn_predict_layers", 0),
    }


def _dots1(metadata: GgufMetadata) -> Mapping[str, Any]:
    return _deepseek(metadata, normalizes=False)


def _deepseek(metadata: GgufMetadata, *, normalizes: bool) -> Mapping[str, Any]:
    """Describes experts as DeepSeek-V3 has them. `normalizes`: where the file does not tell. Raises Unsupported for
    other scores than theirs."""
    check_sigmoid(metadata)
    return {
        "n_routed_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "n_shared_experts": metadata.integer("expert_shared_count", 0),
        "first_k_dense_replace": metadata.integer("leading_dense_block_count", 0),
        "n_group": metadata.integer("expert_group_count", 1),
        "topk_group": metadata.integer("expert_group_used_count", 1),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=normalizes),
    }


def check_sigmoid(metadata: GgufMetadata) -> None:
    """Raises Unsupported for other scores of experts than each one's own."""
    if (function := metadata.integer("expert_gating_func", SIGMOID)) != SIGMOID:
        raise Unsupported(
            f"{metadata.path}: expert_gating_func {function} is not supported in {metadata.architecture}: only "
            f"{SIGMOID}, the sigmoid"
        )


def _ernie4_5_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Counts the inner units of shared experts by the routed ones: converters wrote another number for them."""
    return {
        "moe_num_experts": metadata.integer("expert_count"),
        "moe_k": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "moe_num_shared_experts": metadata.integer("expert_shared_count", 0),
        "moe_layer_start_index": metadata.integer("leading_dense_block_count", 0),
        "moe_layer_interval": metadata.integer("interleave_moe_layer_step", 1),
    }


def _hunyuan_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        "num_experts": metadata.integer("expert_count"),
        "moe_topk": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "num_shared_expert": metadata.integer("expert_shared_count", 1),
    }


def _granite_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **granite_factors(metadata),
        "num_local_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "shared_intermediate_size": metadata.integer("expert_shared_feed_forward_length", 0),
        "fuses_shared_gates": False,
    }


def _minimax_m2(metadata: GgufMetadata) -> Mapping[str, Any]:
    check_sigmoid(metadata)
    return {
        **partial_rotation(metadata),
        "num_local_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "intermediate_size": metadata.integer("expert_feed_forward_length"),
    }


def _llama4(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Sets what files do not tell to what llama.cpp has as constants: every fourth layer does not rotate, and models
    with 128 experts do not normalize queries and keys. Raises Unsupported for models without chunks."""
    if metadata.integer("attention.sliding_window", 1) == 0:
        raise Unsupported(
            f"{metadata.path}: Llama 4 without chunks is not supported as GGUF: serve its folder of safetensors"
        )
    count = metadata.integer("expert_count")
    return {
        "num_local_experts": count,
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "intermediate_size": metadata.integer("expert_feed_forward_length"),
        "intermediate_size_mlp": metadata.integer("feed_forward_length"),
        "interleave_moe_layer_step": metadata.integer("interleave_moe_layer_step"),
        "use_qk_norm": count != _COUNT_WITHOUT_NORMS,
    }


DEEPSEEK_NAMES = {**LAYER_NAMES, **shared_names("mlp.shared_experts"), **_with_bias("mlp.gate")}
EXPERT_ARCHITECTURES = {
    "qwen2moe": GgufArchitecture(
        "Qwen2MoeForCausalLM",
        {**LAYER_NAMES, **shared_names("mlp.shared_expert"), "mlp.shared_expert_gate": "ffn_gate_inp_shexp"},
        biased_modules={"qkv_bias": "attn_q"},
        describe=_qwen2_moe,
    ),
    "olmoe": GgufArchitecture("OlmoeForCausalLM", describe=_olmoe),
    "glm4moe": GgufArchitecture(
        "Glm4MoeForCausalLM",
        {**DEEPSEEK_NAMES, "post_attention_layernorm": "post_attention_norm"},
        biased_modules={"attention_bias": "attn_q"},
        optional_modules={"use_qk_norm": "attn_q_norm"},
        describe=_glm4_moe,
    ),
    "dots1": GgufArchitecture("Dots1ForCausalLM", DEEPSEEK_NAMES, describe=_dots1),
    "ernie4_5-moe": GgufArchitecture(
        "Ernie4_5_MoeForCausalLM",
        {**LAYER_NAMES, **shared_names("mlp.shared_experts"), **_with_bias("mlp.moe_statics")},
        biased_modules={"use_bias": "attn_q"},
        describe=_ernie4_5_moe,
    ),
    "hunyuan-moe": GgufArchitecture(
        "HunYuanMoEV1ForCausalLM",
        {**LAYER_NAMES, **shared_names("mlp.shared_mlp")},
        biased_modules={"attention_bias": "attn_q"},
        describe=_hunyuan_moe,
    ),
    "granitemoe": GgufArchitecture(
        "GraniteMoeSharedForCausalLM",
        {**LAYER_NAMES, **shared_names("block_sparse_moe.shared_mlp")},
        interleaves_heads=True,
        biased_modules={"attention_bias": "attn_q"},
        describe=_granite_moe,
    ),
    "llama4": GgufArchitecture(
        "Llama4ForCausalLM",
        {**LAYER_NAMES, **shared_names("feed_forward.shared_expert"), "feed_forward.gate": "ffn_gate_inp"},
        biased_modules={"attention_bias": "attn_q"},
        describe=_llama4,
    ),
    "minimax-m2": GgufArchitecture(
        "MiniMaxM2ForCausalLM", {**LAYER_NAMES, **_with_bias("block_sparse_moe")}, describe=_minimax_m2
    ),
}
"""Architectures by their GGUF names."""
