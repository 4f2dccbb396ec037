"""Falcon (Almazrouei et al., 2023): parallel blocks on one layer norm, or on one each, and a key and a value for all
queries or for each group of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.grouped.gpt_neox import GROUPS_HEADS
from headrace.engine.checkpoints.families.grouped.head_split import split_evenly
from headrace.engine.checkpoints.families.grouped.plain_activations import PLAIN_ACTIVATIONS
from headrace.errors.tree import Unsupported

NAMES = (
    ("embed_tokens", "word_embeddings"),
    ("norm", "ln_f"),
    ("self_attn.qkv_proj", "self_attention.query_key_value"),
    ("self_attn.o_proj", "self_attention.dense"),
    ("mlp.up_proj", "mlp.dense_h_to_4h"),
    ("mlp.down_proj", "mlp.dense_4h_to_h"),
)
TWO_NORMS = (("input_layernorm", "ln_attn"), ("post_attention_layernorm", "ln_mlp"))
"""Names of the norms of parallel blocks that have one each."""


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("alibi"):
        raise Unsupported("alibi is not supported in FalconForCausalLM: scores that fall with the distance of keys")
    is_new, has_bias = bool(raw["new_decoder_architecture"]), bool(raw["bias"])
    norm_count = raw.get("num_ln_in_parallel_attn")
    has_two_norms = is_new and (norm_count is None or int(norm_count) == 2)
    config = split_evenly(config, _kv_head_count(config, raw, is_new=is_new))
    return replace(
        config,
        blocks=BlockFacts(
            centers_norms=True,
            biased_norms=True,
            is_parallel=is_new or bool(raw["parallel_attn"]),
            has_two_norms=has_two_norms,
            is_gated=False,
        ),
        module_names=(*NAMES, *TWO_NORMS) if has_two_norms else NAMES,
        activation=PLAIN_ACTIVATIONS[raw["activation"]],
        intermediate_size=int(raw.get("ffn_hidden_size") or 4 * config.hidden_size),
        fused_qkv=True,
        groups_qkv=bool(raw[GROUPS_HEADS]),
        qkv_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=has_bias,
        rms_norm_epsilon=float(raw["layer_norm_epsilon"]),
    )


def _kv_head_count(config: DecoderConfig, raw: Mapping[str, Any], *, is_new: bool) -> int:
    if is_new:
        return int(raw.get("num_kv_heads") or config.head_count)
    return 1 if raw["multi_query"] else config.head_count


FALCON = Family(
    "FalconForCausalLM",
    _adapt,
    {
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "new_decoder_architecture": False,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        # Its own name of it is ffn_hidden_size: this is never used, but has to be there.
        "intermediate_size": 1,
        GROUPS_HEADS: True,
    },
    activation_key="activation",
    activations=tuple(PLAIN_ACTIVATIONS),
)
