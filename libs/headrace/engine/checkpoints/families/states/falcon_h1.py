"""Falcon-H1 (Technology Innovation Institute, 2025): attention and a state space of Mamba-2 side by side in each layer,
with factors of what goes into all blocks and comes out of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_factors import BlockFactors
from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.checkpoints.facts.states.state_space import SpaceNorm, StateSpace
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.states.layer_kinds import check_step_limit
from headrace.errors.tree import Unsupported

BIASES = ("attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias")
NAMES = (
    ("norm", "final_layernorm"),
    ("post_attention_layernorm", "pre_ff_layernorm"),
    *((f"mlp.{name}_proj", f"feed_forward.{name}_proj") for name in ("gate", "up", "down")),
)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if biased := next((name for name in BIASES if raw.get(name)), None):
        raise Unsupported(f"{biased} is not supported in {config.architecture}")
    gate, down = (float(factor) for factor in raw.get("mlp_multipliers") or (1.0, 1.0))
    before, keys = float(raw["attention_in_multiplier"]), float(raw["key_multiplier"])
    every = tuple(range(config.layer_count))
    return replace(
        config,
        # Queries and keys both have the factor of attention's inputs, and values have it once.
        attention_scale=config.attention_scale * before * before * keys,
        embedding_scale=float(raw["embedding_multiplier"]),
        logit_scale=float(raw["lm_head_multiplier"]),
        module_names=NAMES,
        blocks=BlockFacts(
            states=StateConfig(every, every, _space(config, raw)),
            factors=BlockFactors(before * float(raw["attention_out_multiplier"]), gate, down),
        ),
    )


def _space(config: DecoderConfig, raw: Mapping[str, Any]) -> StateSpace:
    check_step_limit(raw)
    inner = int(raw.get("mamba_d_ssm") or int(raw["mamba_expand"]) * config.hidden_size)
    heads, size, before = int(raw["mamba_n_heads"]), raw["mamba_d_head"], float(raw["ssm_in_multiplier"])
    norm: SpaceNorm = "before_gates" if raw["mamba_norm_before_gate"] else "behind_gates"
    return StateSpace(
        module="mamba",
        head_count=heads,
        head_size=inner // heads if size == "auto" else int(size),
        state_size=int(raw["mamba_d_state"]),
        group_count=int(raw["mamba_n_groups"]),
        width=int(raw["mamba_d_conv"]),
        has_convolution_bias=bool(raw["mamba_conv_bias"]),
        has_bias=False,
        norm_epsilon=config.rms_norm_epsilon,
        norm=norm if raw["mamba_rms_norm"] else "none",
        input_factors=tuple(before * float(factor) for factor in raw.get("ssm_multipliers") or (1.0,) * 5),
        output_factor=float(raw["ssm_out_multiplier"]),
    )


FALCON_H1 = Family(
    "FalconH1ForCausalLM",
    _adapt,
    {
        "rms_norm_eps": 1e-5,
        "mamba_d_ssm": 1024,
        "mamba_n_heads": 128,
        "mamba_d_head": "auto",
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_conv_bias": True,
        "mamba_norm_before_gate": True,
        "mamba_rms_norm": False,
        "lm_head_multiplier": 1.0,
        "embedding_multiplier": 1.0,
        "key_multiplier": 1.0,
        "attention_in_multiplier": 1.0,
        "attention_out_multiplier": 1.0,
        "ssm_in_multiplier": 1.0,
        "ssm_out_multiplier": 1.0,
    },
)
