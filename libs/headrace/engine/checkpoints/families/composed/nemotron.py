"""Nemotron 4 and Minitron (Parmar et al., 2024): layer norm around one, squared ReLU without gates, and half
of a head rotates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family

BLOCKS = BlockFacts(centers_norms=True, biased_norms=True, is_gated=False)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        config,
        blocks=BLOCKS,
        activation="relu_squared",
        norm_offset=1.0,
        rms_norm_epsilon=float(raw["norm_eps"]),
    )


NEMOTRON = Family(
    "NemotronForCausalLM", _adapt, {"norm_eps": 1e-5, "partial_rotary_factor": 0.5}, activations=("relu2",)
)
