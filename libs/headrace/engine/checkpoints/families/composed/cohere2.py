"""Command R7B and Command A (Cohere, 2024): Command R with windows, and no rotation in the layers without one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.composed.cohere import COHERE_DEFAULTS, adapt_cohere
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING, windows_of


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    period = int(raw["sliding_window_pattern"])
    usual = [SLIDING if (index + 1) % period else FULL for index in range(config.layer_count)]
    windows = windows_of(raw.get("layer_types") or usual, raw, config.layer_count)
    unrotated = frozenset(index for index, window in enumerate(windows) if window is None)
    return replace(adapt_cohere(config, raw), windows=windows, unrotated_layers=unrotated)


COHERE2 = Family("Cohere2ForCausalLM", _adapt, {**COHERE_DEFAULTS, "sliding_window": 4096, "sliding_window_pattern": 4})
