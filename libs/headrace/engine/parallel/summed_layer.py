"""Layers whose products are shared: what each rank computes is summed before it is added to the residual."""

from dataclasses import dataclass, replace

from torch import Tensor

from headrace.engine.parallel.collective import Collective
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class SummedBlock:
    """A product or a feed-forward block of which each rank computes a part."""

    part: Linear | Mlp
    collective: Collective

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.collective.sum(self.part(inputs))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)


def summed(layer: DecoderLayer, collective: Collective) -> DecoderLayer:
    """Returns the layer with both of its blocks summed over ranks."""
    if not isinstance(layer, PreNormLayer | SandwichNormLayer):
        raise TypeError(f"a layer of type {type(layer).__name__} cannot be shared")
    attention = replace(layer.attention, output=SummedBlock(layer.attention.output, collective))
    return replace(layer, attention=attention, mlp=SummedBlock(layer.mlp, collective))
