"""MiniMax M2 (2025): experts scored by sigmoids, and queries and keys normalized over all heads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw["scoring_func"] != "sigmoid":
        raise Unsupported(
            f"scoring_func {raw['scoring_func']!r} is not supported in {config.architecture}: only sigmoid"
        )
    experts = ExpertConfig(
        count=int(raw["num_local_experts"]),
        routing=ExpertRouting(
            int(raw["num_experts_per_tok"]), normalizes_weights=True, score="sigmoid", bias_name=CORRECTION
        ),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module="block_sparse_moe",
        projections=("w1", "w3", "w2"),
    )
    return replace(
        config,
        blocks=BlockFacts(normalizes_whole_heads=True),
        rotary_size=int(raw.get("rotary_dim") or config.rotary_size),
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        experts=experts,
    )


MINIMAX_M2 = Family(
    "MiniMaxM2ForCausalLM",
    _adapt,
    {
        "head_dim": 128,
        "rope_theta": 5e6,
        "num_local_experts": 256,
        "num_experts_per_tok": 8,
        "scoring_func": "sigmoid",
    },
)
