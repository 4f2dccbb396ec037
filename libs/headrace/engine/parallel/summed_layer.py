"""Layers whose products are shared: what each rank computes is summed before it is added to the residual."""

from dataclasses import dataclass, replace

from torch import Tensor

from headrace.engine.parallel.collective import Collective
from headrace.engine.torch.adapters.adapted_linear import AdaptedLinear, RowUpdate
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.kernel_linear import KernelLinear


@dataclass(frozen=True, slots=True)
class SummedBlock:
    """A product or a feed-forward block of which each rank computes a part.

    Parts from the kernels of CPUs are summed in fp32 and rounded once, as the whole product is. Those of GPUs are
    summed in their 16 bits, which halves the exchanged bytes.
    """

    part: Linear | Mlp
    collective: Collective

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._sum(inputs).to(inputs.dtype)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        total = self._sum(inputs)
        return total.add_(residual).to(residual.dtype)

    def adapted(self, updates: tuple[RowUpdate, ...]) -> "SummedBlock":
        """Returns the same product with updates of adapters, of which each rank computes a part before the sum. The
        block must be a product."""
        return SummedBlock(AdaptedLinear(self.part, updates), self.collective)

    def _sum(self, inputs: Tensor) -> Tensor:
        product = self.part.linear if isinstance(self.part, AdaptedLinear) else self.part
        return self.collective.sum(self.part(inputs.float() if isinstance(product, KernelLinear) else inputs))


def summed(layer: DecoderLayer, collective: Collective) -> DecoderLayer:
    """Returns the layer with both of its blocks summed over ranks."""
    if not isinstance(layer, PreNormLayer | SandwichNormLayer):
        raise TypeError(f"a layer of type {type(layer).__name__} cannot be shared")
    if not isinstance(layer.attention, SelfAttention):
        raise TypeError(f"a block of type {type(layer.attention).__name__} cannot be shared")
    attention = replace(layer.attention, output=SummedBlock(layer.attention.output, collective))
    return replace(layer, attention=attention, mlp=_summed_mlp(layer.mlp, collective))


def _summed_mlp(mlp: Mlp, collective: Collective) -> Mlp:
    """Sums after the last product, or after all experts at once."""
    if isinstance(mlp, GatedMlp):
        return replace(mlp, down=SummedBlock(mlp.down, collective))
    return SummedBlock(mlp, collective)
