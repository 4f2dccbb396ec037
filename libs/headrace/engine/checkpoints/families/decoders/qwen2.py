"""Qwen2 and Qwen2.5 (Yang et al., 2024): biases on queries, keys and values, and windows in the later layers.

Its checkpoints include the distillations of DeepSeek-R1 into Qwen.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import read_optional_windows


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, qkv_bias=True, output_bias=False, windows=read_optional_windows(raw, config.layer_count))


QWEN2 = Family("Qwen2ForCausalLM", _adapt, {"sliding_window": 4096, "max_window_layers": 28})
