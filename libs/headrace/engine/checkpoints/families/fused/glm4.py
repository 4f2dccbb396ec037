"""GLM-4 (GLM team, 2024), of which half a head rotates, in pairs of neighbors, and GLM-4-0414 (2025), which has norms
behind blocks too."""

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


def _adapt_glm(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, pairs_neighbors=True, fused_gate_up=True, output_bias=False, mlp_bias=False)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(_adapt_glm(config, raw), post_norms=True, module_names=NAMES)


DEFAULTS = {"attention_bias": True, "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07}
GLM = Family("GlmForCausalLM", _adapt_glm, DEFAULTS)
GLM4 = Family("Glm4ForCausalLM", _adapt, DEFAULTS)
