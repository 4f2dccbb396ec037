"""Phi-3 and Phi-4-mini (Abdin et al., 2024): fused projections, longrope, and a window in every layer or in none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        config,
        fused_qkv=True,
        fused_gate_up=True,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        windows=same_window(raw, config.layer_count),
    )


PHI3 = Family("Phi3ForCausalLM", _adapt, {"rms_norm_eps": 1e-5})
