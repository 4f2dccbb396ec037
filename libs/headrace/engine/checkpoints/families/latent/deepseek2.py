"""DeepSeek-V2 (DeepSeek-AI, 2024), of which the Lite model: latent attention, and experts beside a shared one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import deepseek_experts
from headrace.engine.checkpoints.families.latent.latent_blocks import with_latent
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw["topk_method"] != "greedy" or raw["norm_topk_prob"]:
        raise Unsupported(
            f"topk_method {raw['topk_method']!r} with norm_topk_prob {raw['norm_topk_prob']} is not supported in "
            "DeepseekV2ForCausalLM: only 'greedy' without, as in DeepSeek-V2-Lite"
        )
    routing = ExpertRouting(
        int(raw["num_experts_per_tok"]), normalizes_weights=False, scale=float(raw["routed_scaling_factor"])
    )
    experts = replace(deepseek_experts(raw, ""), routing=routing)
    return replace(with_latent(config, raw, pairs_neighbors=True), experts=experts)


DEEPSEEK2 = Family(
    "DeepseekV2ForCausalLM",
    _adapt,
    {
        "attention_bias": False,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "topk_method": "greedy",
        "norm_topk_prob": False,
        "first_k_dense_replace": 0,
        "n_shared_experts": 2,
        "n_routed_experts": 64,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1407,
        "routed_scaling_factor": 1.0,
    },
)
