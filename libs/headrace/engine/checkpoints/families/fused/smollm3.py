"""SmolLM3 (Bakouch et al., 2025): Llama without rotation in every fourth layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, windows_of
from headrace.errors.tree import InvalidCheckpoint


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Reads `no_rope_layers`, in which 1 stands for a layer that rotates."""
    count, interval = config.layer_count, int(raw["no_rope_layer_interval"])
    rotates = raw.get("no_rope_layers") or [(index + 1) % interval for index in range(count)]
    if len(rotates) != count:
        raise InvalidCheckpoint(f"config.json: no_rope_layers has {len(rotates)} entries for {count} layers")
    kinds = (raw.get("layer_types") if raw.get("use_sliding_window") else None) or [FULL] * count
    unrotated = frozenset(index for index, turns in enumerate(rotates) if not turns)
    return replace(config, unrotated_layers=unrotated, windows=windows_of(kinds, raw, count))


SMOLLM3 = Family(
    "SmolLM3ForCausalLM", _adapt, {"no_rope_layer_interval": 4, "rope_theta": 2e6, "tie_word_embeddings": True}
)
