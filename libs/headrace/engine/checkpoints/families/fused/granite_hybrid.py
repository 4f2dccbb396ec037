"""Granite 4 without state spaces and experts (IBM, 2025): Granite 3 with fused gates, and with or without rotation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.fused.granite import GRANITE_DEFAULTS, adapt_granite
from headrace.errors.tree import Unsupported

ATTENTION = ("attention", "full_attention")
NAMES = (("mlp.gate_up_proj", "shared_mlp.input_linear"), ("mlp.down_proj", "shared_mlp.output_linear"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if int(raw["num_local_experts"]):
        raise Unsupported("experts are not supported in GraniteMoeHybridForCausalLM: only num_local_experts of 0")
    kinds = raw.get("layer_types") or raw.get("layers_block_type") or ["mamba"]
    if others := sorted(set(kinds) - set(ATTENTION)):
        raise Unsupported(
            f"layers of type {others[0]!r} are not supported in GraniteMoeHybridForCausalLM: only attention"
        )
    rotates = raw.get("position_embedding_type") == "rope"
    return replace(
        adapt_granite(config, raw),
        intermediate_size=int(raw["shared_intermediate_size"]),
        fused_gate_up=True,
        mlp_bias=False,
        module_names=NAMES,
        unrotated_layers=frozenset() if rotates else frozenset(range(config.layer_count)),
    )


GRANITE_HYBRID = Family(
    "GraniteMoeHybridForCausalLM",
    _adapt,
    {**GRANITE_DEFAULTS, "num_local_experts": 8, "shared_intermediate_size": 1024},
)
