"""StableLM 2 (Bellagente et al., 2024): layer norm with biases, a quarter of a head rotates, blocks may be parallel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("qk_layernorm"):
        raise Unsupported("qk_layernorm is not supported in StableLmForCausalLM: norms of each head of its own")
    is_parallel = bool(raw.get("use_parallel_residual"))
    return replace(
        config,
        blocks=BlockFacts(centers_norms=True, biased_norms=True, is_parallel=is_parallel),
        qkv_bias=bool(raw.get("use_qkv_bias")),
        output_bias=False,
        mlp_bias=False,
        rms_norm_epsilon=float(raw["layer_norm_eps"]),
    )


STABLELM = Family("StableLmForCausalLM", _adapt, {"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25})
