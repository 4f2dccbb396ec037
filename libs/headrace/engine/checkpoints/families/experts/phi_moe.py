"""Phi-3.5-MoE (Abdin et al., 2024): layer norm with biases, a head with a bias, and experts chosen one after the
other."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.checkpoints.facts.rotary.rope_scaling import LongRopeScaling, RopeScaling
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import find_rope_parameters
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window
from headrace.errors.tree import Unsupported

BLOCKS = BlockFacts(centers_norms=True, biased_norms=True)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    experts = ExpertConfig(
        count=int(raw["num_local_experts"]),
        routing=ExpertRouting(
            int(raw["num_experts_per_tok"]),
            normalizes_weights=False,
            sparse_share=2 * float(raw["router_jitter_noise"]),
        ),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module="block_sparse_moe",
        projections=("w1", "w3", "w2"),
    )
    return replace(
        config,
        blocks=BLOCKS,
        mlp_bias=False,
        head_bias=bool(raw["lm_head_bias"]),
        rope_scaling=_tempered(config.rope_scaling, find_rope_parameters(dict(raw))),
        windows=same_window(raw, config.layer_count),
        experts=experts,
    )


def _tempered(scaling: RopeScaling | None, rope: Mapping[str, Any]) -> RopeScaling | None:
    """Takes the factor of cosines and sines from `short_mscale` and `long_mscale`."""
    if not isinstance(scaling, LongRopeScaling):
        return scaling
    short, long = float(rope["short_mscale"]), float(rope["long_mscale"])
    if short != long:
        raise Unsupported(f"short_mscale {short} beside long_mscale {long} is not supported: only the same")
    return replace(scaling, attention_factor=short)


_DEFAULTS = {
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-5,
    "num_local_experts": 16,
    "num_experts_per_tok": 2,
    "router_jitter_noise": 0.01,
    "lm_head_bias": False,
}
PHI_MOE = Family("PhimoeForCausalLM", _adapt, _DEFAULTS)
PHI_MOE_PUBLISHED = Family("PhiMoEForCausalLM", _adapt, _DEFAULTS)
"""Name that the published files have."""
