"""Qwen3-MoE (Yang et al., 2025): Qwen3 with a mixture of experts in most layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    experts = ExpertConfig(
        count=int(raw.get("num_experts") or raw["num_local_experts"]),
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=bool(raw["norm_topk_prob"])),
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=_dense_layers(raw, config.layer_count),
        module="mlp",
        projections=("gate_proj", "up_proj", "down_proj"),
    )
    windows = same_window(raw, config.layer_count) if raw.get("use_sliding_window") else config.windows
    return replace(config, query_key_norm=True, mlp_bias=False, windows=windows, experts=experts)


def _dense_layers(raw: Mapping[str, Any], layer_count: int) -> frozenset[int]:
    """Returns the layers without experts: the listed ones, and all but every `decoder_sparse_step`-th."""
    listed = frozenset(raw.get("mlp_only_layers") or ())
    return listed | {index for index in range(layer_count) if (index + 1) % int(raw["decoder_sparse_step"])}


QWEN3_MOE = Family(
    "Qwen3MoeForCausalLM",
    _adapt,
    {
        "sliding_window": 4096,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 768,
        "num_local_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": False,
    },
)
