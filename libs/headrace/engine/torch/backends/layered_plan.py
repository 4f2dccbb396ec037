"""The plan of attention of a model whose layers differ, made of plans for layers that are alike."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.attention_parts import AttentionPart, attention_parts
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention, PagedAttention
from headrace.engine.torch.backends.attention_plan import AttentionPlan
from headrace.engine.torch.backends.layered_attention import LayeredAttention, LayerPlace


def plan_layers(model: DecoderConfig, plan: Callable[[DecoderConfig], AttentionPlan]) -> AttentionPlan:
    """Plans attention of all layers of a model, where `plan` does for layers that have heads of the same sizes."""
    varied = model.blocks.varied
    if varied is None:
        return plan(model)
    parts = attention_parts(model)
    plans = [plan(part.config) for part in parts]
    places = _places(model, parts, varied.sources)

    def build(heads: HeadShape, layers: Sequence[LayerAttention], block_count: int) -> PagedAttention:
        built = [
            own.build(_shape(heads, part.config), [layers[index] for index in part.layers], block_count)
            for own, part in zip(plans, parts, strict=True)
        ]
        return LayeredAttention(built, places)

    return AttentionPlan(tuple(shape for own in plans for shape in own.shapes), build)


def _places(model: DecoderConfig, parts: Sequence[AttentionPart], sources: Sequence[int]) -> list[LayerPlace]:
    found = {layer: (at, part.layers.index(layer)) for at, part in enumerate(parts) for layer in part.layers}
    return [
        LayerPlace(*found[source], model.head_count * model.heads(index).head_size, source)
        for index, source in enumerate(sources)
    ]


def _shape(heads: HeadShape, part: DecoderConfig) -> HeadShape:
    return replace(heads, kv_head_count=part.kv_head_count, head_size=part.head_size, rotary_size=part.rotary_size)
