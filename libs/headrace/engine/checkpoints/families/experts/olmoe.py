"""OLMoE (Muennighoff et al., 2024): experts in every layer, and queries and keys normalized over all heads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("clip_qkv") is not None:
        raise Unsupported(f"clip_qkv {raw['clip_qkv']} is not supported in OlmoeForCausalLM: only null")
    experts = ExpertConfig(
        count=int(raw["num_experts"]),
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=bool(raw["norm_topk_prob"])),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module="mlp",
        projections=PROJECTIONS,
    )
    blocks = BlockFacts(normalizes_whole_heads=True)
    return replace(config, blocks=blocks, mlp_bias=False, experts=experts)


OLMOE = Family(
    "OlmoeForCausalLM",
    _adapt,
    {"rms_norm_eps": 1e-5, "num_experts_per_tok": 8, "num_experts": 64, "norm_topk_prob": False},
)
