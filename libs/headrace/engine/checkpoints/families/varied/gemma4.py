"""The text models of Gemma 4 (Google, 2026): wider heads and fewer rotating pairs in layers without a window, inputs of
each layer or a mixture of experts beside its feed-forward block."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, StackedExperts
from headrace.engine.checkpoints.facts.layers.head_sizes import HeadSizes
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.engine.checkpoints.families.varied.varied_blocks import ends_full, with_varied
from headrace.errors.tree import Unsupported

PERIOD = 6
"""Every so-manieth layer has no window, where config.json does not say."""
STACKED = StackedExperts("gate_up_proj", "down_proj", is_transposed=False, is_interleaved=False)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw["use_bidirectional_attention"] == "all":
        raise Unsupported("use_bidirectional_attention 'all' is not supported in Gemma 4: only 'vision', for images")
    usual = [SLIDING if (index + 1) % PERIOD else FULL for index in range(config.layer_count)]
    kinds = ends_full(raw.get("layer_types") or usual)
    heads = [_heads(config, raw, index, kind) for index, kind in enumerate(kinds)]
    adapted = with_varied(config, raw, kinds, heads)
    blocks = replace(adapted.blocks, scales_layers=True, inner_sizes=_inner_sizes(adapted, raw))
    if raw["attention_k_eq_v"] and blocks.varied is not None:
        full = frozenset(index for index, kind in enumerate(kinds) if kind == FULL)
        blocks = replace(blocks, varied=replace(blocks.varied, keys_as_values=full))
    if not raw["enable_moe_block"]:
        return replace(adapted, blocks=blocks)
    names = (("experts.gate", "router.proj"),)
    return replace(adapted, blocks=replace(blocks, adds_experts=True), experts=_experts(raw), module_names=names)


def _heads(config: DecoderConfig, raw: Mapping[str, Any], index: int, kind: str) -> HeadSizes:
    """Reads the heads of a layer. Older files have the sizes of all layers without a window beside the others."""
    given = raw.get("per_layer_config")
    own = {} if given is None else given.get(str(index), {})
    if given is None and kind == FULL:
        shared = raw.get("num_global_key_value_heads") if raw["attention_k_eq_v"] else None
        own = {"head_dim": raw["global_head_dim"], "num_key_value_heads": shared}
    size = int(own.get("head_dim") or config.head_size)
    return HeadSizes(int(own.get("num_key_value_heads") or config.kv_head_count), size, rotary_size=size)


def _inner_sizes(config: DecoderConfig, raw: Mapping[str, Any]) -> tuple[int, ...]:
    varied, size = config.blocks.varied, config.intermediate_size
    if varied is None or not raw["use_double_wide_mlp"]:
        return ()
    return tuple(size if varied.has_keys(index) else 2 * size for index in range(config.layer_count))


def _experts(raw: Mapping[str, Any]) -> ExpertConfig:
    return ExpertConfig(
        count=int(raw["num_experts"]),
        routing=ExpertRouting(int(raw["top_k_experts"]), normalizes_weights=True),
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=frozenset(),
        module="experts",
        projections=PROJECTIONS,
        stacked=STACKED,
    )


_DEFAULTS = {
    "vocab_size": 262144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "max_position_embeddings": 131072,
    "sliding_window": 512,
    "tie_word_embeddings": True,
    "use_bidirectional_attention": None,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "attention_k_eq_v": False,
    "num_kv_shared_layers": 0,
    "enable_moe_block": False,
    "use_double_wide_mlp": False,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    },
}
_ACTIVATION = ("hidden_activation", ("gelu_pytorch_tanh",))
GEMMA4 = Family("Gemma4ForCausalLM", _adapt, _DEFAULTS, *_ACTIVATION)
_UNIFIED = {**_DEFAULTS, "hidden_size_per_layer_input": 0, "sliding_window": 1024, "max_position_embeddings": 262144}
GEMMA4_UNIFIED = Family("Gemma4UnifiedForCausalLM", _adapt, _UNIFIED, *_ACTIVATION)
GEMMA4_UNIFIED_MULTIMODAL = Family(
    "Gemma4UnifiedForConditionalGeneration", _adapt, _UNIFIED, *_ACTIVATION, is_nested=True
)
GEMMA4_MULTIMODAL = Family("Gemma4ForConditionalGeneration", _adapt, _DEFAULTS, *_ACTIVATION, is_nested=True)
