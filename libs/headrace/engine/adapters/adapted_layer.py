"""A decoder's layers as one step needs them: with what the adapters of its requests add."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from headrace.engine.adapters.adapter import Product
from headrace.engine.adapters.step_adapters import StepAdapters, updates_of
from headrace.engine.layers.adapted_linear import AdaptedLinear, JoinedLinear, RowUpdate
from headrace.engine.layers.gated_mlp import FusedGatedMlp, GatedMlp, PlainGatedMlp, silu
from headrace.engine.layers.linear import Linear
from headrace.engine.layers.routed_mlp import RoutedMlp
from headrace.engine.models.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.models.self_attention import SelfAttention

_ATTENTION: tuple[Product, Product] = ("qkv", "output")
_MLP: tuple[Product, Product] = ("gate_up", "down")


def adapted(layers: Sequence[DecoderLayer], step: StepAdapters) -> list[DecoderLayer]:
    """The same layers around the same weights, for this step."""
    return [_adapt_layer(layer, index, step) for index, layer in enumerate(layers)]


def _adapt_layer(layer: DecoderLayer, index: int, step: StepAdapters) -> DecoderLayer:
    if not isinstance(layer, PreNormLayer | SandwichNormLayer):
        raise TypeError(f"cannot adapt a {type(layer).__name__}")
    attention, mlp = _adapt_attention(layer.attention, index, step), _adapt_mlp(layer.mlp, index, step)
    return replace(layer, attention=attention, mlp=mlp)


def _adapt_attention(attention: SelfAttention, index: int, step: StepAdapters) -> SelfAttention:
    qkv, output = (updates_of(step.groups, index, product) for product in _ATTENTION)
    return replace(attention, qkv=_adapt_linear(attention.qkv, qkv), output=_adapt_linear(attention.output, output))


def _adapt_mlp(mlp: GatedMlp, index: int, step: StepAdapters) -> GatedMlp:
    if not step.mlp_groups:
        return mlp
    if isinstance(mlp, FusedGatedMlp):
        return _split_fused(mlp, index, step)
    gate_up, down = (updates_of(step.groups, index, product) for product in _MLP)
    if not gate_up and not down:
        return mlp
    if not isinstance(mlp, PlainGatedMlp):
        raise TypeError(f"cannot adapt a {type(mlp).__name__}")
    return replace(mlp, gate_up=_adapt_linear(mlp.gate_up, gate_up), down=_adapt_linear(mlp.down, down))


def _split_fused(mlp: FusedGatedMlp, index: int, step: StepAdapters) -> RoutedMlp:
    """Activations that are fused into a product leave no place to add before them, and are rounded in another way.

    Which way a row goes must not depend on its company: adapters that change any layer's block take the unfused one
    in all layers.
    """
    gate_up, down = (updates_of(step.mlp_groups, index, product) for product in _MLP)
    joined = _adapt_linear(JoinedLinear(mlp.gate, mlp.up), gate_up)
    unfused = PlainGatedMlp(joined, _adapt_linear(mlp.down, down), silu)
    routes: tuple[tuple[Tensor, GatedMlp], ...] = ((step.other_rows, mlp), (step.mlp_rows, unfused))
    return RoutedMlp(tuple((rows, block) for rows, block in routes if len(rows)))


def _adapt_linear(linear: Linear, updates: tuple[RowUpdate, ...]) -> Linear:
    return AdaptedLinear(linear, updates) if updates else linear
