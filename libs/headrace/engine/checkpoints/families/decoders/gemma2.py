"""Gemma 2 (Riviere et al., 2024): soft caps, windows in every other layer, norms before and after blocks, GeGLU."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING, windows_of
from headrace.errors.tree import Unsupported

GEMMA_DEFAULTS = {
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}


def adapt_gemma(config: DecoderConfig, raw: Mapping[str, Any], full_period: int) -> DecoderConfig:
    """Applies what Gemma 2 and 3 share. Without `layer_types`, every `full_period`-th layer has no window."""
    usual = [SLIDING if (index + 1) % full_period else FULL for index in range(config.layer_count)]
    return replace(
        config,
        windows=windows_of(raw.get("layer_types") or usual, raw, config.layer_count),
        attention_scale=float(raw["query_pre_attn_scalar"]) ** -0.5,
        logit_soft_cap=read_cap(raw, "final_logit_softcapping"),
        embedding_scale=config.hidden_size**0.5,
        activation="gelu_tanh",
        norm_offset=1.0,
        post_norms=True,
        mlp_bias=False,
    )


def read_cap(raw: Mapping[str, Any], name: str) -> float | None:
    return None if raw.get(name) is None else float(raw[name])


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("use_bidirectional_attention"):
        raise Unsupported("use_bidirectional_attention is not supported in Gemma2ForCausalLM")
    adapted = adapt_gemma(config, raw, full_period=2)
    return replace(adapted, attention_soft_cap=read_cap(raw, "attn_logit_softcapping"))


GEMMA2 = Family(
    "Gemma2ForCausalLM",
    _adapt,
    {**GEMMA_DEFAULTS, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    activation_key="hidden_activation",
    activations=("gelu_pytorch_tanh",),
)
