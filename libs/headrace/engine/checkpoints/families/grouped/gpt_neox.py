"""GPT-NeoX (Black et al., 2022) and Pythia (Biderman et al., 2023): parallel blocks with a layer norm each, and a
quarter of a head rotates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import find_rope_parameters
from headrace.engine.checkpoints.families.grouped.head_split import split_evenly
from headrace.engine.checkpoints.families.grouped.plain_activations import PLAIN_ACTIVATIONS

GROUPS_HEADS = "groups_heads"
"""Key that the reader of GGUF sets: there, all queries come first, then all keys."""
NAMES = (
    ("embed_tokens", "embed_in"),
    ("norm", "final_layer_norm"),
    ("self_attn.qkv_proj", "attention.query_key_value"),
    ("self_attn.o_proj", "attention.dense"),
    ("mlp.up_proj", "mlp.dense_h_to_4h"),
    ("mlp.down_proj", "mlp.dense_4h_to_h"),
)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    rope, is_parallel = find_rope_parameters(dict(raw)), bool(raw["use_parallel_residual"])
    config = split_evenly(config, config.head_count)
    share, has_bias = float(rope.get("partial_rotary_factor") or raw["rotary_pct"]), bool(raw["attention_bias"])
    return replace(
        config,
        blocks=BlockFacts(
            centers_norms=True, biased_norms=True, is_parallel=is_parallel, has_two_norms=is_parallel, is_gated=False
        ),
        module_names=NAMES,
        activation=PLAIN_ACTIVATIONS[raw["hidden_act"]],
        rotary_size=int(config.head_size * share),
        rope_theta=float(rope.get("rope_theta") or raw["rotary_emb_base"]),
        fused_qkv=True,
        groups_qkv=bool(raw[GROUPS_HEADS]),
        qkv_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=True,
        rms_norm_epsilon=float(raw["layer_norm_eps"]),
    )


GPT_NEOX = Family(
    "GPTNeoXForCausalLM",
    _adapt,
    {
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "use_parallel_residual": True,
        "attention_bias": True,
        "rotary_pct": 0.25,
        "rotary_emb_base": 1e4,
        GROUPS_HEADS: True,
    },
    activations=tuple(PLAIN_ACTIVATIONS),
)
