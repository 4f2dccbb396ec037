"""Granite 4 (IBM, 2025): the factors of Granite 3, layers of Mamba-2 between layers that attend, with or without
rotation, and experts beside a shared one in the larger models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.granite_moe import (
    FUSES_GATES,
    GRANITE_MOE_DEFAULTS,
    adapt_granite_moe,
)
from headrace.engine.checkpoints.families.fused.granite import adapt_granite
from headrace.engine.checkpoints.families.states.layer_kinds import check_step_limit, layers_of, state_config

ATTENTION, SPACE = "attention", "mamba"
KINDS = {"full_attention": ATTENTION, "linear_attention": SPACE}
"""Kinds of layers as transformers 5 names them, by those of published models."""
NAMES = (("mlp.gate_up_proj", "shared_mlp.input_linear"), ("mlp.down_proj", "shared_mlp.output_linear"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    adapted = adapt_granite_moe(config, raw) if int(raw["num_local_experts"]) else _adapt_dense(config, raw)
    listed = raw.get("layer_types") or raw.get("layers_block_type") or [SPACE] * config.layer_count
    kinds = [KINDS.get(kind, kind) for kind in layers_of(listed, config)]
    rotates = raw.get("position_embedding_type") == "rope"
    return replace(
        adapted,
        blocks=BlockFacts(states=state_config(_space(config, raw), kinds, SPACE, ATTENTION)),
        unrotated_layers=frozenset() if rotates else frozenset(range(config.layer_count)),
    )


def _adapt_dense(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        adapt_granite(config, raw),
        intermediate_size=int(raw["shared_intermediate_size"]),
        fused_gate_up=bool(raw[FUSES_GATES]),
        mlp_bias=False,
        module_names=NAMES,
    )


def _space(config: DecoderConfig, raw: Mapping[str, Any]) -> StateSpace:
    check_step_limit(raw)
    heads, size = int(raw["mamba_n_heads"]), raw["mamba_d_head"]
    return StateSpace(
        module="mamba",
        head_count=heads,
        head_size=int(raw["mamba_expand"]) * config.hidden_size // heads if size == "auto" else int(size),
        state_size=int(raw["mamba_d_state"]),
        group_count=int(raw["mamba_n_groups"]),
        width=int(raw["mamba_d_conv"]),
        has_convolution_bias=bool(raw["mamba_conv_bias"]),
        has_bias=bool(raw["mamba_proj_bias"]),
        norm_epsilon=config.rms_norm_epsilon,
    )


GRANITE_HYBRID = Family(
    "GraniteMoeHybridForCausalLM",
    _adapt,
    {
        **GRANITE_MOE_DEFAULTS,
        "shared_intermediate_size": 1024,
        "mamba_n_heads": 128,
        "mamba_d_head": "auto",
        "mamba_d_state": 256,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
    },
)
