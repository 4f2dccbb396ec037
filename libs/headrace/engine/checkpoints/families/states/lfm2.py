"""LFM2 (Liquid AI, 2025): most layers convolve a few tokens between two gates, the others attend."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.short_convolution import ShortConvolution
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.states.layer_kinds import layers_of, state_config

ATTENTION, CONVOLUTION = "full_attention", "conv"
NAMES = (
    ("norm", "embedding_norm"),
    ("input_layernorm", "operator_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_norm", "self_attn.q_layernorm"),
    ("self_attn.k_norm", "self_attn.k_layernorm"),
    ("self_attn.o_proj", "self_attn.out_proj"),
    ("mlp.gate_proj", "feed_forward.w1"),
    ("mlp.up_proj", "feed_forward.w3"),
    ("mlp.down_proj", "feed_forward.w2"),
)


def adapt_lfm2(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies what all models of LFM2 have in common."""
    mixer = ShortConvolution(config.hidden_size, int(raw["conv_L_cache"]), bool(raw["conv_bias"]))
    kinds = raw.get("layer_types") or _kinds(raw, config.layer_count)
    return replace(
        config,
        rms_norm_epsilon=float(raw["norm_eps"]),
        query_key_norm=True,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        module_names=NAMES,
        blocks=BlockFacts(states=state_config(mixer, layers_of(kinds, config), CONVOLUTION, ATTENTION)),
    )


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(adapt_lfm2(config, raw), intermediate_size=_inner_size(raw))


def _inner_size(raw: Mapping[str, Any]) -> int:
    """Returns the units of the feed-forward blocks: two thirds of those in config.json, times a factor, rounded up."""
    given = int(raw.get("block_ff_dim") or raw["intermediate_size"])
    if not raw["block_auto_adjust_ff_dim"]:
        return given
    factor, step = raw["block_ffn_dim_multiplier"], int(raw["block_multiple_of"])
    inner = int(2 * given / 3)
    return inner if factor is None else -(-int(float(factor) * inner) // step) * step


def _kinds(raw: Mapping[str, Any], layer_count: int) -> list[str]:
    attending = raw.get("full_attn_idxs")
    chosen = range(layer_count) if attending is None else attending
    return [ATTENTION if index in chosen else CONVOLUTION for index in range(layer_count)]


LFM2_DEFAULTS = {
    "norm_eps": 1e-5,
    "conv_L_cache": 3,
    "conv_bias": False,
    "tie_word_embeddings": True,
    "rope_theta": 1_000_000.0,
}
LFM2 = Family(
    "Lfm2ForCausalLM",
    _adapt,
    {
        **LFM2_DEFAULTS,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "intermediate_size": 12288,
    },
)
