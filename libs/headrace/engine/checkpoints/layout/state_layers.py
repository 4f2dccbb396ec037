"""Tensors of the layers that keep a state, by their names in Hugging Face checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from headrace.engine.checkpoints.facts.states.gated_delta import GatedDelta
from headrace.engine.checkpoints.facts.states.mixer_facts import MixerFacts
from headrace.engine.checkpoints.facts.states.short_convolution import ShortConvolution
from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, Projection, WeightT
from headrace.engine.checkpoints.layout.gated_rows import split_rows


@dataclass(frozen=True, slots=True)
class ConvolutionParts(Generic[ArrayT, WeightT]):
    """Tensors of a short convolution between two gates."""

    inputs: Projection[ArrayT, WeightT]
    """Gate before the convolution, gate behind it, and what is convolved: [3 x channels, hidden]."""
    taps: ArrayT
    """Weights fp32 [channels, 1, taps], the oldest token first."""
    bias: ArrayT | None
    """Numbers fp32 [channels] that the convolution adds."""
    output: Projection[ArrayT, WeightT]

    @property
    def products(self) -> tuple[Projection[ArrayT, WeightT], ...]:
        """Products with weights, in order."""
        return self.inputs, self.output


@dataclass(frozen=True, slots=True)
class DeltaParts(Generic[ArrayT, WeightT]):
    """Tensors of a gated delta rule."""

    inputs: Projection[ArrayT, WeightT]
    """Queries, keys, values, and gates of the output: [2 x keys + 2 x values, hidden]."""
    rates: Projection[ArrayT, WeightT]
    """Rates of correction and of forgetting: [2 x value heads, hidden]."""
    taps: ArrayT
    """Weights fp32 [channels, 1, taps], the oldest token first."""
    rate_bias: ArrayT
    """Numbers fp32 [value heads] added to rates of forgetting."""
    log_decay: ArrayT
    """Logarithm of the factor of these rates, fp32 [value heads]."""
    norm: ArrayT
    """Weights fp32 [value size] of the norm of each head's output."""
    output: Projection[ArrayT, WeightT]

    @property
    def products(self) -> tuple[Projection[ArrayT, WeightT], ...]:
        """Products with weights, in order."""
        return self.inputs, self.rates, self.output


@dataclass(frozen=True, slots=True)
class SpaceParts(Generic[ArrayT, WeightT]):
    """Tensors of a state space."""

    inputs: Projection[ArrayT, WeightT]
    """Gates of the output, inputs, the two products of all groups, and step sizes of all heads."""
    taps: ArrayT
    """Weights fp32 [channels, 1, taps], the oldest token first."""
    bias: ArrayT | None
    """Numbers fp32 [channels] that the convolution adds."""
    step_bias: ArrayT
    """Numbers fp32 [heads] added to step sizes."""
    log_decay: ArrayT
    """Logarithm of the factor of step sizes in the decay, fp32 [heads]."""
    skip: ArrayT
    """Factors fp32 [heads] of the inputs that outputs have beside the state."""
    norm: ArrayT | None
    """Weights fp32 [inner] of the norm of outputs."""
    output: Projection[ArrayT, WeightT]

    @property
    def products(self) -> tuple[Projection[ArrayT, WeightT], ...]:
        """Products with weights, in order."""
        return self.inputs, self.output


Parts = ConvolutionParts[ArrayT, WeightT] | DeltaParts[ArrayT, WeightT] | SpaceParts[ArrayT, WeightT]
"""Tensors of what a layer has in the place of attention."""


def read_mixer(
    weights: DecoderWeights[ArrayT, WeightT], facts: MixerFacts, index: int, hidden_size: int
) -> Parts[ArrayT, WeightT]:
    """Reads what a layer has in the place of attention. Raises TypeError for a kind of state without a reader."""
    match facts:
        case ShortConvolution():
            return read_convolution(weights, facts, index, hidden_size)
        case GatedDelta():
            return read_delta(weights, facts, index, hidden_size)
        case StateSpace():
            return read_space(weights, facts, index, hidden_size)
    raise TypeError(f"there is no reader of {type(facts).__name__}")


def read_convolution(
    weights: DecoderWeights[ArrayT, WeightT], facts: ShortConvolution, index: int, hidden_size: int
) -> ConvolutionParts[ArrayT, WeightT]:
    """Reads the short convolution of a layer."""
    prefix = f"model.layers.{index}.conv"
    inputs = weights.projection({f"{prefix}.in_proj": 3 * facts.channels}, hidden_size, has_bias=facts.has_bias)
    taps = weights.numbers(f"{prefix}.conv.weight", facts.channels, 1, facts.width)
    bias = weights.numbers(f"{prefix}.conv.bias", facts.channels) if facts.has_bias else None
    output = weights.projection({f"{prefix}.out_proj": hidden_size}, facts.channels, has_bias=facts.has_bias)
    return ConvolutionParts(inputs, taps, bias, output)


def read_delta(
    weights: DecoderWeights[ArrayT, WeightT], facts: GatedDelta, index: int, hidden_size: int
) -> DeltaParts[ArrayT, WeightT]:
    """Reads the gated delta rule of a layer."""
    prefix, heads = f"model.layers.{index}.linear_attn", facts.value_head_count
    inputs, rates = _delta_products(weights, facts, prefix, hidden_size)
    return DeltaParts(
        inputs,
        rates,
        weights.numbers(f"{prefix}.conv1d.weight", facts.channels, 1, facts.width),
        weights.numbers(f"{prefix}.dt_bias", heads),
        weights.numbers(f"{prefix}.A_log", heads),
        weights.numbers(f"{prefix}.norm.weight", facts.value_size),
        weights.projection({f"{prefix}.out_proj": hidden_size}, facts.value_row_count, has_bias=False),
    )


def _delta_products(
    weights: DecoderWeights[ArrayT, WeightT], facts: GatedDelta, prefix: str, hidden_size: int
) -> tuple[Projection[ArrayT, WeightT], Projection[ArrayT, WeightT]]:
    value_rows, heads = facts.value_row_count, facts.value_head_count
    share = heads // facts.key_head_count

    def read(sizes: Mapping[str, int], group: Sequence[int] = ()) -> Projection[ArrayT, WeightT]:
        """Reads a product, and sorts its rows by kind where checkpoints have a `group` of rows for each key head."""
        names = {f"{prefix}.{name}": size for name, size in sizes.items()}
        product = weights.projection(names, hidden_size, has_bias=False)
        if not group:
            return product
        return weights.reordered(product, np.concatenate(split_rows(facts.key_head_count, group)))

    if facts.groups_inputs:
        group = (facts.key_size, facts.key_size, share * facts.value_size, share * facts.value_size)
        inputs = read({"in_proj_qkvz": facts.channels + value_rows}, group)
    else:
        inputs = read({"in_proj_qkv": facts.channels, "in_proj_z": value_rows})
    if facts.groups_rates:
        rates = read({"in_proj_ba": 2 * heads}, (share, share))
    else:
        rates = read({"in_proj_b": heads, "in_proj_a": heads})
    return inputs, rates


def read_space(
    weights: DecoderWeights[ArrayT, WeightT], facts: StateSpace, index: int, hidden_size: int
) -> SpaceParts[ArrayT, WeightT]:
    """Reads the state space of a layer."""
    prefix, heads = f"model.layers.{index}.{facts.module}", facts.head_count
    in_size = facts.inner_size + facts.channels + heads
    return SpaceParts(
        weights.projection({f"{prefix}.in_proj": in_size}, hidden_size, has_bias=facts.has_bias),
        weights.numbers(f"{prefix}.conv1d.weight", facts.channels, 1, facts.width),
        weights.numbers(f"{prefix}.conv1d.bias", facts.channels) if facts.has_convolution_bias else None,
        weights.numbers(f"{prefix}.dt_bias", heads),
        weights.numbers(f"{prefix}.A_log", heads),
        weights.numbers(f"{prefix}.D", heads),
        None if facts.norm == "none" else weights.numbers(f"{prefix}.norm.weight", facts.inner_size),
        weights.projection({f"{prefix}.out_proj": hidden_size}, facts.inner_size, has_bias=facts.has_bias),
    )
