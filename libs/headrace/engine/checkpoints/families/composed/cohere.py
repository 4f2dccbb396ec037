"""Command R (Cohere, 2024): layer norm without bias, blocks side by side, neighboring rotary pairs, scaled logits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.errors.tree import Unsupported

BLOCKS = BlockFacts(centers_norms=True, is_parallel=True)


def adapt_cohere(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies what Command R and R7B share."""
    if raw.get("use_qk_norm"):
        raise Unsupported(f"use_qk_norm is not supported in {config.architecture}: norms of each head of its own")
    return replace(
        config,
        blocks=BLOCKS,
        pairs_neighbors=True,
        mlp_bias=False,
        rms_norm_epsilon=float(raw["layer_norm_eps"]),
        logit_scale=float(raw["logit_scale"]),
    )


COHERE_DEFAULTS = {"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "tie_word_embeddings": True}
COHERE = Family("CohereForCausalLM", adapt_cohere, COHERE_DEFAULTS)
