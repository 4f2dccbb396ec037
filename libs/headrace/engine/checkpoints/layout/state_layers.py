"""Tensors of the layers that keep a state, by their names in Hugging Face checkpoints."""

from dataclasses import dataclass
from typing import Generic

from headrace.engine.checkpoints.facts.state_config import MixerFacts, ShortConvolution
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, Projection, WeightT


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


def read_mixer(
    weights: DecoderWeights[ArrayT, WeightT], facts: MixerFacts, index: int, hidden_size: int
) -> ConvolutionParts[ArrayT, WeightT]:
    """Reads what a layer has in the place of attention. Raises TypeError for a kind of state without a reader."""
    match facts:
        case ShortConvolution():
            return read_convolution(weights, facts, index, hidden_size)
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
