"""ERNIE 4.5 with experts (Baidu, 2025): chosen with a bias, beside shared ones; neighboring rotary pairs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION, PROJECTIONS


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    inner, has_bias = int(raw["moe_intermediate_size"]), bool(raw["use_bias"])
    shared_count = int(raw.get("moe_num_shared_experts") or 0)
    experts = ExpertConfig(
        count=int(raw["moe_num_experts"]),
        routing=ExpertRouting(
            int(raw["moe_k"]),
            normalizes_weights=True,
            least_sum=float(raw["moe_norm_min"]),
            bias_name=f"moe_statics.{CORRECTION}",
            bias_row_count=1,
        ),
        intermediate_size=inner,
        dense_layers=frozenset(index for index in range(config.layer_count) if not _has_experts(index, raw, config)),
        module="mlp",
        projections=PROJECTIONS,
        shared=SharedExpert("shared_experts", shared_count * inner) if shared_count else None,
    )
    return replace(
        config, pairs_neighbors=True, qkv_bias=has_bias, output_bias=has_bias, mlp_bias=has_bias, experts=experts
    )


def _has_experts(index: int, raw: Mapping[str, Any], config: DecoderConfig) -> bool:
    last = int(raw["moe_layer_end_index"])
    is_within = int(raw["moe_layer_start_index"]) <= index <= (config.layer_count - 1 if last == -1 else last)
    return is_within and (index + 1) % int(raw["moe_layer_interval"]) == 0


ERNIE4_5_MOE = Family(
    "Ernie4_5_MoeForCausalLM",
    _adapt,
    {
        "use_bias": False,
        "rope_theta": 5e5,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "moe_intermediate_size": 1536,
        "moe_k": 6,
        "moe_norm_min": 1e-12,
        "moe_num_experts": 64,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": -1,
        "moe_layer_interval": 1,
    },
)
