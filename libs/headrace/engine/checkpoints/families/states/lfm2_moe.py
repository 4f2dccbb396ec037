"""LFM2 with experts (Liquid AI, 2025), which are scored by sigmoids."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.states.lfm2 import LFM2_DEFAULTS, adapt_lfm2


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    routing = ExpertRouting(
        int(raw["num_experts_per_tok"]),
        normalizes_weights=bool(raw["norm_topk_prob"]),
        score="sigmoid",
        least_sum=1e-6,
        scale=float(raw["routed_scaling_factor"]),
        bias_name="expert_bias" if raw["use_expert_bias"] else "",
    )
    experts = ExpertConfig(
        count=int(raw["num_experts"]),
        routing=routing,
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=frozenset(range(int(raw["num_dense_layers"]))),
        module="feed_forward",
        projections=("w1", "w3", "w2"),
    )
    return replace(adapt_lfm2(config, raw), experts=experts)


LFM2_MOE = Family(
    "Lfm2MoeForCausalLM",
    _adapt,
    {
        **LFM2_DEFAULTS,
        "intermediate_size": 7168,
        "moe_intermediate_size": 1792,
        "num_dense_layers": 2,
        "num_experts_per_tok": 4,
        "num_experts": 32,
        "use_expert_bias": True,
        "routed_scaling_factor": 1.0,
        "norm_topk_prob": True,
    },
)
