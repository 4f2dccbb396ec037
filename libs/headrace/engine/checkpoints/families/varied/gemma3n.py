"""The text models of Gemma 3n (Google, 2025): streams of hidden states, inputs of each layer, gates most of which are
zero."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layers.stream_config import StreamConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING
from headrace.engine.checkpoints.families.varied.varied_blocks import with_varied
from headrace.errors.tree import InvalidCheckpoint

PERIOD = 5
"""Every so-manieth layer has no window, where config.json does not say."""
USUAL_SHARE, SPARSE_COUNT = 0.95, 10
"""Share of gates that become zero, and the first layers that have such gates, where config.json does not say."""


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    count = config.layer_count
    usual = [SLIDING if (index + 1) % PERIOD else FULL for index in range(count)]
    usual_heads = replace(config, rotary_size=config.head_size).heads(0)
    adapted = with_varied(config, raw, raw.get("layer_types") or usual, [usual_heads] * count)
    sizes = raw["intermediate_size"]
    blocks = replace(
        adapted.blocks,
        streams=_streams(raw),
        inner_sizes=tuple(map(int, sizes)) if isinstance(sizes, list) else (),
        zero_shares=_zero_shares(raw, count),
    )
    if blocks.inputs is None:
        raise InvalidCheckpoint("config.json: hidden_size_per_layer_input is 0, and layers of Gemma 3n need inputs")
    _check_count(blocks.inner_sizes or usual, "intermediate_size", count)
    return replace(adapted, blocks=blocks)


def _streams(raw: Mapping[str, Any]) -> StreamConfig:
    streams = StreamConfig(
        count=int(raw["altup_num_inputs"]),
        active=int(raw["altup_active_idx"]),
        scales_output=bool(raw["altup_correct_scale"]),
        rank=int(raw["laurel_rank"]),
    )
    if not 0 <= streams.active < streams.count:
        raise InvalidCheckpoint(f"config.json: altup_active_idx is {streams.active}, of {streams.count} streams")
    return streams


def _zero_shares(raw: Mapping[str, Any], count: int) -> tuple[float, ...]:
    given = raw.get("activation_sparsity_pattern")
    if given is None:
        sparse_count = SPARSE_COUNT if count > SPARSE_COUNT else 0
        given = [USUAL_SHARE] * sparse_count + [0.0] * (count - sparse_count)
    shares = tuple(map(float, given))
    _check_count(shares, "activation_sparsity_pattern", count)
    if not all(0 <= share < 1 for share in shares):
        raise InvalidCheckpoint("config.json: activation_sparsity_pattern has shares that are not from 0 to 1")
    return shares


def _check_count(found: tuple[float, ...] | list[str], name: str, count: int) -> None:
    if len(found) != count:
        raise InvalidCheckpoint(f"config.json: {name} has {len(found)} entries for {count} layers")


_DEFAULTS = {
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "tie_word_embeddings": True,
    "final_logit_softcapping": 30.0,
    "rope_theta": 1e6,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "num_kv_shared_layers": 15,
    "altup_num_inputs": 4,
    "altup_active_idx": 0,
    "altup_correct_scale": True,
    "laurel_rank": 64,
}
_ACTIVATION = ("hidden_activation", ("gelu_pytorch_tanh",))
GEMMA3N = Family("Gemma3nForCausalLM", _adapt, _DEFAULTS, *_ACTIVATION)
GEMMA3N_MULTIMODAL = Family("Gemma3nForConditionalGeneration", _adapt, _DEFAULTS, *_ACTIVATION, is_nested=True)
