"""Mistral (Jiang et al., 2023): Llama with the same sliding window in every layer, or with none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, qkv_bias=False, output_bias=False, windows=same_window(raw, config.layer_count))


MISTRAL = Family("MistralForCausalLM", _adapt, {"sliding_window": 4096})
