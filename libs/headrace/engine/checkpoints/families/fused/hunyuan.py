"""Hunyuan dense (Tencent, 2025): Llama whose query and key heads are normalized after they rotate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import find_rope_parameters
from headrace.errors.tree import InvalidCheckpoint

HUNYUAN_NAMES = (("self_attn.q_norm", "self_attn.query_layernorm"), ("self_attn.k_norm", "self_attn.key_layernorm"))


def adapt_hunyuan(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies what models with and without experts share. With `alpha`, a scaling of kind "dynamic" does not depend on
    the length of the text: it raises the base of the frequencies (NTK-aware scaling, bloc97, 2023). Raises
    InvalidCheckpoint for an alpha below 1, and for heads too small to raise it."""
    alpha = float(find_rope_parameters(dict(raw)).get("alpha") or 1)
    if alpha < 1 or config.rotary_size <= 2:
        raise InvalidCheckpoint(
            f"config.json: the rotary scaling alpha is {alpha:g} for heads of {config.rotary_size} elements: give an "
            "alpha of 1 or more, and heads of more than 2"
        )
    return replace(
        config,
        query_key_norm=bool(raw.get("use_qk_norm", True)),
        norms_rotated=True,
        rope_theta=config.rope_theta * alpha ** (config.rotary_size / (config.rotary_size - 2)),
        mlp_bias=False,
        module_names=HUNYUAN_NAMES,
    )


HUNYUAN = Family("HunYuanDenseV1ForCausalLM", adapt_hunyuan, {"rms_norm_eps": 1e-5})
