"""DeepSeek-V3 and R1 (DeepSeek-AI, 2024), Kimi K2 (2025) and GLM-4.7 Flash: latent attention, and experts that are
scored by sigmoids."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION, deepseek_experts
from headrace.engine.checkpoints.families.latent.latent_blocks import with_latent


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    turned = with_latent(config, raw, pairs_neighbors=bool(raw["rope_interleave"]))
    experts = deepseek_experts(raw, f"gate.{CORRECTION}")
    kinds = raw.get("mlp_layer_types")
    if kinds is not None:
        experts = replace(experts, dense_layers=frozenset(at for at, kind in enumerate(kinds) if kind == "dense"))
    return replace(turned, experts=experts)


_DEFAULTS = {
    "attention_bias": False,
    "rope_interleave": True,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "norm_topk_prob": True,
    "n_shared_experts": 1,
}
DEEPSEEK3 = Family(
    "DeepseekV3ForCausalLM",
    _adapt,
    {
        **_DEFAULTS,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "first_k_dense_replace": 3,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "routed_scaling_factor": 2.5,
        "n_group": 8,
        "topk_group": 4,
    },
)
GLM4_MOE_LITE = Family(
    "Glm4MoeLiteForCausalLM",
    _adapt,
    {
        **_DEFAULTS,
        "rms_norm_eps": 1e-5,
        "q_lora_rank": 768,
        "qk_nope_head_dim": 192,
        "v_head_dim": 256,
        "first_k_dense_replace": 1,
        "n_routed_experts": 64,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1536,
        "routed_scaling_factor": 1.8,
        "n_group": 1,
        "topk_group": 1,
    },
)
