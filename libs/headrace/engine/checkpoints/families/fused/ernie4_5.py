"""ERNIE 4.5 without experts (Baidu, 2025): neighboring rotary pairs, biases everywhere or nowhere."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    has_bias = bool(raw["use_bias"])
    return replace(config, pairs_neighbors=True, qkv_bias=has_bias, output_bias=has_bias, mlp_bias=has_bias)


ERNIE4_5 = Family(
    "Ernie4_5ForCausalLM",
    _adapt,
    {"use_bias": False, "head_dim": 128, "rope_theta": 5e5, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
)
