"""OLMo 3 (OLMo team, 2025): OLMo 2 with windows in three of four layers, whose rotary frequencies are not scaled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.composed.olmo2 import OLMO2
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import read_rope_scaling
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING, windows_of
from headrace.errors.tree import Unsupported

PERIOD = 4


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    usual = [SLIDING if (index + 1) % PERIOD else FULL for index in range(config.layer_count)]
    local = (raw.get("rope_parameters") or {}).get("sliding_attention") or {}
    if read_rope_scaling(local) is not None:
        raise Unsupported("rotary scaling of layers with a window is not supported")
    return replace(
        OLMO2.adapt(config, raw),
        windows=windows_of(raw.get("layer_types") or usual, raw, config.layer_count),
        local_rope_theta=float(local.get("rope_theta") or config.rope_theta),
    )


OLMO3 = Family("Olmo3ForCausalLM", _adapt, {"rms_norm_eps": 1e-5, "rope_theta": 5e5, "sliding_window": 4096})
