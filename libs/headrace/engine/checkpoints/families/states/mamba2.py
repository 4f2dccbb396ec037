"""Mamba-2 (Dao and Gu, 2024), such as Codestral Mamba: each layer is a state space, and none attends."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.states.layer_kinds import check_step_limit

NAMES = (("embed_tokens", "embeddings"), ("norm", "norm_f"), ("input_layernorm", "norm"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    check_step_limit(raw)
    space = StateSpace(
        module="mixer",
        head_count=int(raw["num_heads"]),
        head_size=int(raw["head_dim"]),
        state_size=int(raw["state_size"]),
        group_count=int(raw["n_groups"]),
        width=int(raw["conv_kernel"]),
        has_convolution_bias=bool(raw["use_conv_bias"]),
        has_bias=bool(raw["use_bias"]),
        norm_epsilon=float(raw["layer_norm_epsilon"]),
    )
    states = StateConfig(tuple(range(config.layer_count)), (), space)
    return replace(
        config,
        rms_norm_epsilon=float(raw["layer_norm_epsilon"]),
        module_names=NAMES,
        blocks=BlockFacts(has_single_blocks=True, states=states),
    )


MAMBA2 = Family(
    "Mamba2ForCausalLM",
    _adapt,
    {
        "num_heads": 128,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "use_conv_bias": True,
        "use_bias": False,
        "layer_norm_epsilon": 1e-5,
        # No layer attends or has a feed-forward block: these are never used, but have to be there.
        "num_attention_heads": 1,
        "intermediate_size": 1,
        "max_position_embeddings": 1 << 17,
    },
)
