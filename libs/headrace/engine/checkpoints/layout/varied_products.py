"""Products of decoders whose layers read more than the hidden states of the layer before. Reads their other tensors
too."""

from collections.abc import Iterator

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, WeightT
from headrace.engine.checkpoints.layout.input_weights import InputWeights
from headrace.engine.checkpoints.layout.stream_weights import StreamWeights

ADDITION_NORMS = ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2")
"""Norms of a layer with experts beside its feed-forward block, beyond the usual ones."""


def shared_products(weights: DecoderWeights[ArrayT, WeightT], config: DecoderConfig) -> Iterator[WeightT]:
    """Lists the products before the first layer."""
    if (inputs := config.blocks.inputs) is not None:
        made = InputWeights(config, inputs, weights)
        made.table()
        made.projection_norm()
        yield made.projection().weight
    if (streams := config.blocks.streams) is not None:
        around = StreamWeights(config, streams, weights)
        yield from (each.weight for each in (*around.spreading(), *around.merging()))


def layer_products(weights: DecoderWeights[ArrayT, WeightT], config: DecoderConfig, index: int) -> Iterator[WeightT]:
    """Lists the products of one layer beside attention, feed-forward block and experts."""
    blocks, prefix = config.blocks, f"model.layers.{index}"
    if blocks.scales_layers:
        weights.vector(f"{prefix}.layer_scalar", 1)
    if blocks.adds_experts and config.experts is not None:
        weights.vector(f"{prefix}.router.scale", config.hidden_size)
        weights.vector(f"{prefix}.router.per_expert_scale", config.experts.count)
        for name in ADDITION_NORMS:
            weights.norm(f"{prefix}.{name}", config.hidden_size)
    if blocks.inputs is not None:
        own = InputWeights(config, blocks.inputs, weights)
        own.output_norm(index)
        yield own.gate(index).weight
        yield own.output(index).weight
    if blocks.streams is not None:
        update = StreamWeights(config, blocks.streams, weights)
        update.router_norm(index)
        update.output_scale(index)
        update.low_rank_norm(index)
        yield update.router(index).weight
        yield update.prediction(index).weight
        yield update.correction(index).weight
        yield from (each.weight for each in update.low_rank(index))
