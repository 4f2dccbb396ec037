"""GGUF's architecture of the families with latent attention, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.expert_architectures import DEEPSEEK_NAMES, SIGMOID
from headrace.engine.checkpoints.gguf.gguf_architecture import GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata

ARCHITECTURE = "deepseek2"
_LOG_SHARE = 0.1
"""Factor of `mscale_all_dim` in the logarithmic multiplier that files have."""


def _latent(metadata: GgufMetadata) -> dict[str, Any]:
    """Describes sizes and experts. Older files have sizes of whole heads, without the ending `_mla`. The factors of
    YaRN are those of all existing models, which have the same for angles and for scores."""
    rotary_size = metadata.integer("rope.dimension_count")
    ending = "_mla" if metadata.has("attention.key_length_mla") else ""
    found: dict[str, Any] = {
        "num_hidden_layers": metadata.integer("block_count") - metadata.integer("nextn_predict_layers", 0),
        "num_key_value_heads": 1,
        "kv_lora_rank": metadata.integer("attention.kv_lora_rank"),
        "q_lora_rank": metadata.integer("attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": rotary_size,
        "qk_nope_head_dim": metadata.integer(f"attention.key_length{ending}") - rotary_size,
        "v_head_dim": metadata.integer(f"attention.value_length{ending}"),
        "n_routed_experts": metadata.integer("expert_count"),
        "n_shared_experts": metadata.integer("expert_shared_count", 0),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "first_k_dense_replace": metadata.integer("leading_dense_block_count", 0),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "n_group": metadata.integer("expert_group_count", 1),
        "topk_group": metadata.integer("expert_group_used_count", 1),
    }
    if metadata.text("rope.scaling.type", "none") == "yarn":
        multiplier = metadata.number("rope.scaling.yarn_log_multiplier", 0.0) / _LOG_SHARE
        found["rope_scaling"] = {
            "rope_type": "yarn",
            "factor": metadata.number("rope.scaling.factor"),
            "original_max_position_embeddings": metadata.integer("rope.scaling.original_context_length"),
            "mscale": multiplier,
            "mscale_all_dim": multiplier,
        }
    return found


def _deepseek2(metadata: GgufMetadata) -> Mapping[str, Any]:
    found = _latent(metadata)
    method = "greedy" if found["n_group"] == 1 else "group_limited_greedy"
    return found | {"topk_method": method, "norm_topk_prob": metadata.flag("expert_weights_norm", default=False)}


def _deepseek3(metadata: GgufMetadata) -> Mapping[str, Any]:
    return _latent(metadata) | {"norm_topk_prob": metadata.flag("expert_weights_norm", default=True)}


_NAMES = {
    **DEEPSEEK_NAMES,
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
}
_SOFTMAX = GgufArchitecture("DeepseekV2ForCausalLM", _NAMES, describe=_deepseek2)
_SIGMOID = GgufArchitecture("DeepseekV3ForCausalLM", _NAMES, describe=_deepseek3)


def latent_architecture(metadata: GgufMetadata) -> GgufArchitecture:
    """Tells DeepSeek-V3 and all that were made like it from V2: their experts are scored by sigmoids."""
    return _SIGMOID if metadata.integer("expert_gating_func", 1) == SIGMOID else _SOFTMAX
