"""AFM (Arcee AI, 2025): Llama with squared ReLU and without gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family

BLOCKS = BlockFacts(is_gated=False)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(config, blocks=BLOCKS, activation="relu_squared")


ARCEE = Family("ArceeForCausalLM", _adapt, {"rms_norm_eps": 1e-5}, activations=("relu2",))
