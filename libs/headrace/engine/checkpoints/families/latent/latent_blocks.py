"""Facts that all families with latent attention have in common."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.checkpoints.families.decoders.rope_parameters import find_rope_parameters


def with_latent(config: DecoderConfig, raw: Mapping[str, Any], *, pairs_neighbors: bool) -> DecoderConfig:
    """Returns the config with one KV head, which is the latent vector and the rotating elements of the key."""
    rank, has_bias = raw["q_lora_rank"], bool(raw["attention_bias"])
    latent = LatentConfig(
        kv_rank=int(raw["kv_lora_rank"]),
        query_rank=None if rank is None else int(rank),
        still_size=int(raw["qk_nope_head_dim"]),
        rotary_size=int(raw["qk_rope_head_dim"]),
        value_size=int(raw["v_head_dim"]),
        pairs_neighbors=pairs_neighbors,
    )
    return replace(
        config,
        kv_head_count=1,
        head_size=latent.head_size,
        rotary_size=latent.rotary_size,
        attention_scale=latent.query_size**-0.5 * _yarn_factor(raw),
        qkv_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=False,
        blocks=BlockFacts(latent=latent),
    )


def _yarn_factor(raw: Mapping[str, Any]) -> float:
    """Returns the factor that YaRN gives to scores in these families, once for queries and once for keys."""
    rope = find_rope_parameters(dict(raw))
    factor, numerator = float(rope.get("factor") or 1), rope.get("mscale_all_dim")
    if not numerator or factor <= 1:
        return 1.0
    return float((0.1 * float(numerator) * math.log(factor) + 1.0) ** 2)
