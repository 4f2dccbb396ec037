"""SmolLM3 (Bakouch et al., 2025): Llama without rotation in every fourth layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import unrotated_layers
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, windows_of


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    count = config.layer_count
    unrotated = unrotated_layers(raw, count)
    kinds = (raw.get("layer_types") if raw.get("use_sliding_window") else None) or [FULL] * count
    return replace(config, unrotated_layers=unrotated, windows=windows_of(kinds, raw, count))


SMOLLM3 = Family(
    "SmolLM3ForCausalLM", _adapt, {"no_rope_layer_interval": 4, "rope_theta": 2e6, "tie_word_embeddings": True}
)
