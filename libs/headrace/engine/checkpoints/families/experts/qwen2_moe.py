"""Qwen1.5-MoE and Qwen2-MoE (Yang et al., 2024): Qwen2 with experts beside a shared one, which has a gate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import read_optional_windows
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    step, listed = int(raw["decoder_sparse_step"]), frozenset(raw.get("mlp_only_layers") or ())
    experts = ExpertConfig(
        count=int(raw["num_experts"]),
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=bool(raw["norm_topk_prob"])),
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=listed | {index for index in range(config.layer_count) if (index + 1) % step},
        module="mlp",
        projections=PROJECTIONS,
        shared=SharedExpert("shared_expert", int(raw["shared_expert_intermediate_size"]), "shared_expert_gate"),
    )
    windows = read_optional_windows(raw, config.layer_count)
    has_bias = bool(raw["qkv_bias"])
    return replace(config, qkv_bias=has_bias, output_bias=False, mlp_bias=False, windows=windows, experts=experts)


QWEN2_MOE = Family(
    "Qwen2MoeForCausalLM",
    _adapt,
    {
        "qkv_bias": True,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "num_experts_per_tok": 4,
        "num_experts": 60,
        "norm_topk_prob": False,
    },
)
