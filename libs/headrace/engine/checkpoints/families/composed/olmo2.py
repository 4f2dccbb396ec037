"""OLMo 2 (OLMo team, 2024): norms behind blocks instead of before them, and over all queries and all keys."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family

BLOCKS = BlockFacts(normalizes_inputs=False, normalizes_whole_heads=True)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, blocks=BLOCKS, mlp_bias=False)


OLMO2 = Family("Olmo2ForCausalLM", _adapt, {"rms_norm_eps": 1e-5})
