"""GLM-4.5 and 4.6 (GLM team, 2025): experts scored by sigmoids beside a shared one, half a head rotates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION, deepseek_experts


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        config,
        output_bias=False,
        query_key_norm=bool(raw["use_qk_norm"]),
        experts=deepseek_experts(raw, f"gate.{CORRECTION}"),
    )


GLM4_MOE = Family(
    "Glm4MoeForCausalLM",
    _adapt,
    {
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 1e-5,
        "use_qk_norm": False,
        "moe_intermediate_size": 1408,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "n_routed_experts": 128,
        "routed_scaling_factor": 1.0,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
    },
)
