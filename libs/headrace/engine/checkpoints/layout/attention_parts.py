"""Layers that attend over memory of one shape."""

from dataclasses import dataclass, replace

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """Layers that keep keys and values, with heads of the same sizes."""

    layers: tuple[int, ...]
    """Indices in the model."""
    config: DecoderConfig
    """Model of these layers alone, as far as attention needs it."""


def attention_parts(config: DecoderConfig) -> tuple[AttentionPart, ...]:
    """Groups the layers of a decoder that keep keys and values by the sizes of their heads. In most models all layers
    are one part."""
    varied = config.blocks.varied
    if varied is None:
        return (AttentionPart(tuple(range(config.layer_count)), config),)
    keeping = [index for index in range(config.layer_count) if varied.has_keys(index)]
    parts = []
    for heads in dict.fromkeys(varied.heads[index] for index in keeping):
        layers = tuple(index for index in keeping if varied.heads[index] == heads)
        parts.append(AttentionPart(layers, _part(config, layers)))
    return tuple(parts)


def _part(config: DecoderConfig, layers: tuple[int, ...]) -> DecoderConfig:
    heads = config.heads(layers[0])
    return replace(
        config,
        layer_count=len(layers),
        kv_head_count=heads.kv_head_count,
        head_size=heads.head_size,
        rotary_size=heads.rotary_size,
        windows=tuple(config.windows[index] for index in layers),
        blocks=replace(config.blocks, varied=None),
    )
