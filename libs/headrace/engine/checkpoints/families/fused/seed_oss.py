"""Seed-OSS (ByteDance Seed, 2025): Llama with biases on queries, keys and values, and heads of 128."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, output_bias=bool(raw["attention_out_bias"]))


SEED_OSS = Family("SeedOssForCausalLM", _adapt, {"attention_bias": True, "attention_out_bias": False, "head_dim": 128})
