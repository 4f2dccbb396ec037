"""Mixtral (Jiang et al., 2024): Mistral with a mixture of experts in every layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    experts = ExpertConfig(
        count=int(raw["num_local_experts"]),
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=True),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module="block_sparse_moe",
        projections=("w1", "w3", "w2"),
    )
    windows = same_window(raw, config.layer_count)
    return replace(config, qkv_bias=False, output_bias=False, mlp_bias=False, windows=windows, experts=experts)


MIXTRAL = Family(
    "MixtralForCausalLM",
    _adapt,
    {"rope_theta": 1e6, "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2},
)
