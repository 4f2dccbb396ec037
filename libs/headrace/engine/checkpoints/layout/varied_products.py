"""Products of decoders whose layers read more than the hidden states of the layer before. Reads their other tensors
too."""

from collections.abc import Iterator

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, WeightT
from headrace.engine.checkpoints.layout.input_weights import InputWeights

ADDITION_NORMS = ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2")
"""Norms of a layer with experts beside its feed-forward block, beyond the usual ones."""


def shared_products(weights: DecoderWeights[ArrayT, WeightT], config: DecoderConfig) -> Iterator[WeightT]:
    """Lists the products before the first layer."""
    if (inputs := config.blocks.inputs) is not None:
        made = InputWeights(config, inputs, weights)
        made.table()
        made.projection_norm()
        yield made.projection().weight


def layer_products(weights: DecoderWeights[ArrayT, WeightT], config: DecoderConfig, index: int) -> Iterator[WeightT]:
    """Lists the products of one layer beside attention, feed-forward block and experts."""
    blocks, prefix = config.blocks, f"model.layers.{index}"
    if blocks.scales_layers:
        weights.numbers(f"{prefix}.layer_scalar", 1)
    if blocks.adds_experts and config.experts is not None:
        weights.numbers(f"{prefix}.router.scale", config.hidden_size)
        weights.numbers(f"{prefix}.router.per_expert_scale", config.experts.count)
        for name in ADDITION_NORMS:
            weights.norm(f"{prefix}.{name}", config.hidden_size)
    if blocks.inputs is not None:
        own = InputWeights(config, blocks.inputs, weights)
        own.output_norm(index)
        yield own.gate(index).weight
        yield own.output(index).weight
