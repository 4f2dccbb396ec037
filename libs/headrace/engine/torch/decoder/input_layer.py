"""A layer that reads an input of its own, and scales what it computes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer
from headrace.engine.torch.decoder.stream_layer import StreamLayer
from headrace.engine.torch.varied.input_block import InputBlock


@dataclass(frozen=True, slots=True)
class InputLayer:
    """Layer of Gemma 4: another layer, then its own input, then a factor."""

    layer: DecoderLayer
    block: InputBlock | None
    """None: the model has no inputs of layers."""
    scale: Tensor
    """Factor [1] of the hidden states."""
    own: Tensor | None = None
    """Input [tokens, size] of the layer in one step, see `fed`."""

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        hidden = self.layer(hidden, attention)
        if self.block is not None and self.own is not None:
            hidden = hidden + self.block(hidden, self.own)
        return hidden * self.scale


def fed(layers: Sequence[DecoderLayer], inputs: Sequence[Tensor]) -> list[DecoderLayer]:
    """Returns `layers` with the inputs [tokens, size] of a step, sharing the same weights."""
    return [
        replace(layer, own=own) if isinstance(layer, InputLayer | StreamLayer) else layer
        for layer, own in zip(layers, inputs, strict=True)
    ]
