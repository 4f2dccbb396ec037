"""Qwen3-Next (Qwen, 2025) and Qwen3.5: three of four layers keep a matrix for each head, corrected by each token."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert, StackedExperts
from headrace.engine.checkpoints.facts.states.gated_delta import GatedDelta
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.engine.checkpoints.families.states.layer_kinds import layers_of, state_config
from headrace.errors.tree import InvalidCheckpoint

ATTENTION, RECURRENCE = "full_attention", "linear_attention"
STACKED = StackedExperts(
    "experts.gate_up_proj", "experts.down_proj", is_transposed=False, is_interleaved=False, may_be_apart=True
)


def _blocks(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    key_heads, value_heads = int(raw["linear_num_key_heads"]), int(raw["linear_num_value_heads"])
    if key_heads < 1 or value_heads % key_heads:
        raise InvalidCheckpoint(f"{value_heads} value heads cannot share {key_heads} key heads evenly")
    mixer = GatedDelta(
        key_head_count=key_heads,
        value_head_count=value_heads,
        key_size=int(raw["linear_key_head_dim"]),
        value_size=int(raw["linear_value_head_dim"]),
        width=int(raw["linear_conv_kernel_dim"]),
        groups_inputs=bool(raw["groups_inputs"]),
        groups_rates=bool(raw["groups_rates"]),
        tiles_heads=bool(raw["tiles_heads"]),
    )
    interval = int(raw["full_attention_interval"])
    usual = [RECURRENCE if (index + 1) % interval else ATTENTION for index in range(config.layer_count)]
    kinds = layers_of(raw.get("layer_types") or usual, config)
    states = state_config(mixer, kinds, RECURRENCE, ATTENTION)
    return replace(
        config,
        query_key_norm=True,
        norm_offset=1.0,
        mlp_bias=False,
        blocks=BlockFacts(gates_attention=True, states=states),
    )


def _experts(config: DecoderConfig, raw: Mapping[str, Any], stacked: StackedExperts | None) -> ExpertConfig | None:
    count, step = int(raw["num_experts"]), int(raw["decoder_sparse_step"])
    if not count:
        return None
    listed = frozenset(raw.get("mlp_only_layers") or ())
    return ExpertConfig(
        count=count,
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=bool(raw["norm_topk_prob"])),
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=listed | {index for index in range(config.layer_count) if (index + 1) % step},
        module="mlp",
        projections=PROJECTIONS,
        shared=SharedExpert("shared_expert", int(raw["shared_expert_intermediate_size"]), "shared_expert_gate"),
        stacked=stacked,
    )


def _adapt_next(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(_blocks(config, raw), experts=_experts(config, raw, None))


def _adapt_experts(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(_blocks(config, raw), experts=_experts(config, raw, STACKED))


_DEFAULTS = {
    "head_dim": 256,
    "partial_rotary_factor": 0.25,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    # Nothing that config.json has: GGUF files order rows in other ways.
    "groups_inputs": False,
    "groups_rates": False,
    "tiles_heads": False,
}
_EXPERT_DEFAULTS = {
    **_DEFAULTS,
    "intermediate_size": 5632,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "norm_topk_prob": True,
}
_NEXT_DEFAULTS = {
    **_EXPERT_DEFAULTS,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "groups_inputs": True,
    "groups_rates": True,
}
QWEN3_NEXT = Family("Qwen3NextForCausalLM", _adapt_next, _NEXT_DEFAULTS)
QWEN3_5 = Family("Qwen3_5ForCausalLM", _blocks, _DEFAULTS)
QWEN3_5_MULTIMODAL = Family("Qwen3_5ForConditionalGeneration", _blocks, _DEFAULTS, is_nested=True)
_MOE_DEFAULTS = {**_EXPERT_DEFAULTS, "num_experts": 256, "num_experts_per_tok": 8}
QWEN3_5_MOE = Family("Qwen3_5MoeForCausalLM", _adapt_experts, _MOE_DEFAULTS)
QWEN3_5_MOE_MULTIMODAL = Family("Qwen3_5MoeForConditionalGeneration", _adapt_experts, _MOE_DEFAULTS, is_nested=True)
