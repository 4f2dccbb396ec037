"""Facts that all families with layers that differ have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layers.head_sizes import HeadSizes
from headrace.engine.checkpoints.facts.layers.input_config import InputConfig
from headrace.engine.checkpoints.facts.layers.varied_attention import VariedAttention
from headrace.engine.checkpoints.families.decoders.gemma2 import read_cap
from headrace.engine.checkpoints.families.decoders.rope_parameters import read_rope_scaling
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, windows_of
from headrace.errors.tree import InvalidCheckpoint, Unsupported


def with_varied(
    config: DecoderConfig, raw: Mapping[str, Any], kinds: Sequence[str], heads: Sequence[HeadSizes]
) -> DecoderConfig:
    """Applies what Gemma 3n and 4 share, to layers of the given attention types and heads."""
    windows = windows_of(kinds, raw, config.layer_count)
    sources = _sources(kinds, int(raw["num_kv_shared_layers"]))
    for source, own in zip(sources, heads, strict=True):
        _check(config, own, heads[source])
    return replace(
        config,
        rotary_size=config.head_size,
        windows=windows,
        attention_scale=1.0,
        local_rope_theta=_local_rope_theta(raw),
        logit_soft_cap=read_cap(raw, "final_logit_softcapping"),
        embedding_scale=config.hidden_size**0.5,
        activation="gelu_tanh",
        post_norms=True,
        mlp_bias=False,
        blocks=BlockFacts(varied=VariedAttention(tuple(heads), sources), inputs=_inputs(raw)),
    )


def _sources(kinds: Sequence[str], shared_count: int) -> tuple[int, ...]:
    """Finds the layer whose keys and values each layer reads: of the last `shared_count` layers, the last one of the
    same type before them."""
    first = len(kinds) - shared_count
    if shared_count < 0 or not set(kinds) <= set(kinds[:first]):
        raise InvalidCheckpoint(
            f"config.json: num_kv_shared_layers is {shared_count}, which leaves no keys for {', '.join(set(kinds))}"
        )
    last = {kind: index for index, kind in enumerate(kinds[:first])}
    return tuple(index if index < first else last[kind] for index, kind in enumerate(kinds))


def _check(config: DecoderConfig, heads: HeadSizes, source: HeadSizes) -> None:
    if min(heads.head_size, heads.kv_head_count) < 1 or heads.head_size % 2:
        raise InvalidCheckpoint(f"config.json: a layer has {heads.kv_head_count} KV heads of {heads.head_size} numbers")
    if config.head_count % heads.kv_head_count:
        raise InvalidCheckpoint(
            f"config.json: {config.head_count} attention heads cannot share {heads.kv_head_count} KV heads evenly"
        )
    if heads != source:
        raise InvalidCheckpoint("config.json: a layer shares the keys of one whose heads have other sizes")


def _inputs(raw: Mapping[str, Any]) -> InputConfig | None:
    size = int(raw["hidden_size_per_layer_input"] or 0)
    return InputConfig(int(raw["vocab_size_per_layer_input"]), size) if size else None


def _local_rope_theta(raw: Mapping[str, Any]) -> float:
    local = (raw.get("rope_parameters") or {}).get("sliding_attention") or {}
    if read_rope_scaling(local) is not None:
        raise Unsupported("rotary scaling of layers with a window is not supported")
    return float(local.get("rope_theta") or raw.get("rope_local_base_freq") or 1e4)


def ends_full(kinds: Sequence[str]) -> list[str]:
    """Returns attention types of which the last one has no window, whatever is stored."""
    return [*kinds[:-1], FULL]
