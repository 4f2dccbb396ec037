"""GLM-4-0414 (GLM team, 2025): norms before and after blocks, and half of a head rotates, in pairs of neighbors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family

NAMES = (
    ("post_attention_layernorm", "post_self_attn_layernorm"),
    ("pre_feedforward_layernorm", "post_attention_layernorm"),
    ("post_feedforward_layernorm", "post_mlp_layernorm"),
)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        config,
        post_norms=True,
        pairs_neighbors=True,
        fused_gate_up=True,
        output_bias=False,
        mlp_bias=False,
        module_names=NAMES,
    )


GLM4 = Family(
    "Glm4ForCausalLM", _adapt, {"attention_bias": True, "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07}
)
