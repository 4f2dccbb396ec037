"""The text models of Llama 4 (Meta, 2025): experts whose inputs are scaled, beside a shared one, attention in chunks,
and no rotation in every fourth layer.

Contexts end where chunks would: up to there, attention is plain, and its temperature is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert, StackedExperts
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import unrotated_layers
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.errors.tree import InvalidCheckpoint, Unsupported

MODULE, CHUNKED = "feed_forward", "chunked_attention"
NAMES = (
    (f"{MODULE}.gate", f"{MODULE}.router"),
    *((f"mlp.{name}", f"{MODULE}.{name}") for name in PROJECTIONS),
)
STACKED = StackedExperts(
    "experts.gate_up_proj", "experts.down_proj", is_transposed=True, is_interleaved=False, may_be_apart=True
)
BLOCKS = BlockFacts(weightless_norms=frozenset(("q_norm", "k_norm")), norms_rotated_alone=True)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    unrotated, normalizes = unrotated_layers(raw, config.layer_count), bool(raw["use_qk_norm"])
    return replace(
        config,
        blocks=BLOCKS if normalizes else BlockFacts(),
        module_names=NAMES,
        intermediate_size=int(raw["intermediate_size_mlp"]),
        max_model_length=min([config.max_model_length, *_plain_lengths(raw, unrotated, config.layer_count)]),
        query_key_norm=normalizes,
        norms_rotated=normalizes,
        pairs_neighbors=True,
        unrotated_layers=unrotated,
        mlp_bias=False,
        experts=_experts(config, raw),
    )


def _experts(config: DecoderConfig, raw: Mapping[str, Any]) -> ExpertConfig | None:
    layers, step = range(config.layer_count), int(raw["interleave_moe_layer_step"])
    sparse = raw.get("moe_layers")
    if sparse is None:
        sparse = layers[step - 1 :: step] if step > 0 else ()
    dense = frozenset(layers).difference(sparse)
    if len(dense) == len(layers):
        return None
    return ExpertConfig(
        count=int(raw["num_local_experts"]),
        routing=ExpertRouting(
            int(raw["num_experts_per_tok"]),
            normalizes_weights=False,
            score="sigmoid",
            ranks_outputs=True,
            scales_inputs=True,
        ),
        intermediate_size=config.intermediate_size,
        dense_layers=dense,
        module=MODULE,
        projections=PROJECTIONS,
        shared=SharedExpert("shared_expert", config.intermediate_size),
        stacked=STACKED,
    )


def _plain_lengths(raw: Mapping[str, Any], unrotated: frozenset[int], layer_count: int) -> list[int]:
    """Returns the longest context that is one chunk, and the longest whose attention has a temperature of one: in
    layers that do not rotate, that of position p is log(floor((p + 1) / floor_scale) + 1) * attn_scale + 1."""
    lengths = []
    if CHUNKED in _layer_types(raw, unrotated, layer_count):
        lengths.append(_at_least(raw, "attention_chunk_size", 1))
    if unrotated and raw["attn_temperature_tuning"]:
        lengths.append(_at_least(raw, "floor_scale", 2) - 1)
    return lengths


def _layer_types(raw: Mapping[str, Any], unrotated: frozenset[int], layer_count: int) -> Sequence[str]:
    kinds: Sequence[str] = raw.get("layer_types") or [
        FULL if index in unrotated else CHUNKED for index in range(layer_count)
    ]
    if unknown := sorted(set(kinds) - {FULL, CHUNKED}):
        raise Unsupported(f"attention {unknown[0]!r} is not supported in Llama 4: only {FULL}, {CHUNKED}")
    return kinds


def _at_least(raw: Mapping[str, Any], name: str, least: int) -> int:
    if not isinstance(raw[name], int) or raw[name] < least:
        raise InvalidCheckpoint(f"config.json: {name} is {raw[name]!r}, and has to be an integer of {least} or more")
    return int(raw[name])


_DEFAULTS = {
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5e5,
    "intermediate_size_mlp": 16384,
    "num_experts_per_tok": 1,
    "num_local_experts": 16,
    "interleave_moe_layer_step": 1,
    "use_qk_norm": True,
    "no_rope_layer_interval": 4,
    "attention_chunk_size": 8192,
    "attn_temperature_tuning": True,
    "floor_scale": 8192,
}
LLAMA4 = Family("Llama4ForCausalLM", _adapt, _DEFAULTS)
LLAMA4_MULTIMODAL = Family("Llama4ForConditionalGeneration", _adapt, _DEFAULTS, is_nested=True)
