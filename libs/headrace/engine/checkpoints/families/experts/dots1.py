"""dots.llm1 (rednote-hilab, 2025): experts as in DeepSeek-V3, on attention whose heads are normalized."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import windows_of
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION, deepseek_experts


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    kinds = raw.get("layer_types")
    return replace(
        config,
        query_key_norm=True,
        mlp_bias=False,
        windows=windows_of(kinds, raw, config.layer_count) if kinds else config.windows,
        experts=deepseek_experts(raw, f"gate.{CORRECTION}"),
    )


DOTS1 = Family(
    "Dots1ForCausalLM",
    _adapt,
    {
        "sliding_window": 4096,
        "moe_intermediate_size": 1408,
        "routed_scaling_factor": 1.0,
        "first_k_dense_replace": 0,
        "norm_topk_prob": False,
    },
)
