"""Qwen3 (Yang et al., 2025): queries and keys are normalized, and head sizes need not sum to the hidden size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import read_optional_windows


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, query_key_norm=True, windows=read_optional_windows(raw, config.layer_count))


QWEN3 = Family("Qwen3ForCausalLM", _adapt, {"head_dim": 128, "sliding_window": 4096, "max_window_layers": 28})
