"""EXAONE 4 (LG AI Research, 2025): norms behind blocks, normalized heads, no rotation where others have windows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING, windows_of
from headrace.errors.tree import Unsupported

BLOCKS = BlockFacts(normalizes_inputs=False)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    windows: tuple[int | None, ...] = (None,) * config.layer_count
    unrotated: frozenset[int] = frozenset()
    if raw.get("sliding_window") is not None:
        windows = windows_of(raw.get("layer_types") or _usual(raw, config.layer_count), raw, config.layer_count)
        unrotated = frozenset(index for index, window in enumerate(windows) if window is None)
    return replace(
        config,
        blocks=BLOCKS,
        query_key_norm=True,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        windows=windows,
        unrotated_layers=unrotated,
    )


def _usual(raw: Mapping[str, Any], layer_count: int) -> list[str]:
    period = raw["sliding_window_pattern"]
    if not isinstance(period, int) or period < 1:
        raise Unsupported(f"sliding_window_pattern {period!r} is not supported: only a number, or layer_types")
    return [SLIDING if (index + 1) % period else FULL for index in range(layer_count)]


EXAONE4 = Family(
    "Exaone4ForCausalLM", _adapt, {"rms_norm_eps": 1e-5, "sliding_window": 4096, "sliding_window_pattern": 4}
)
