"""Granite 3 (IBM, 2024): Llama with factors of embeddings, attention scores, what blocks add, and logits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.errors.tree import InvalidCheckpoint


def adapt_granite(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies the factors that Granite 3 and 4 share.

    Blocks add their outputs times a factor m to the residual h. With h / m in its place they add them as they are: the
    embedding is divided by m, and norms give the same results with an epsilon divided by m squared.
    """
    added, divisor = float(raw["residual_multiplier"]), float(raw["logits_scaling"])
    if added <= 0 or divisor <= 0:
        raise InvalidCheckpoint(
            f"config.json: residual_multiplier is {added}, logits_scaling {divisor}: both are above 0"
        )
    return replace(
        config,
        embedding_scale=float(raw["embedding_multiplier"]) / added,
        rms_norm_epsilon=config.rms_norm_epsilon / added**2,
        attention_scale=float(raw["attention_multiplier"]),
        logit_scale=1 / divisor,
    )


GRANITE_DEFAULTS = {
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
    "logits_scaling": 1.0,
}
GRANITE = Family("GraniteForCausalLM", adapt_granite, GRANITE_DEFAULTS)
