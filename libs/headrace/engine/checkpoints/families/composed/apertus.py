"""Apertus (Hernandez-Cano et al., 2025): normalized queries and keys, and xIELU without gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family

BLOCKS = BlockFacts(is_gated=False, has_learned_activation=True)
NAMES = (("input_layernorm", "attention_layernorm"), ("post_attention_layernorm", "feedforward_layernorm"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, blocks=BLOCKS, module_names=NAMES, query_key_norm=True, mlp_bias=False)


APERTUS = Family("ApertusForCausalLM", _adapt, {"rms_norm_eps": 1e-5, "rope_theta": 1.2e7}, activations=("xielu",))
