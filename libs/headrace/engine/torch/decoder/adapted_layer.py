"""A decoder's layers for one step, including the updates of its requests' adapters."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.engine.torch.adapters.adapted_linear import Adaptable, AdaptedLinear, RowUpdate
from headrace.engine.torch.adapters.step_adapters import StepAdapters
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp
from headrace.engine.torch.layers.linear import Linear


def adapted(layers: Sequence[DecoderLayer], step: StepAdapters) -> list[DecoderLayer]:
    """Returns `layers` with the updates of `step` added, sharing the same base weights."""
    return [_adapt_layer(layer, index, step) for index, layer in enumerate(layers)]


def _adapt_layer(layer: DecoderLayer, index: int, step: StepAdapters) -> DecoderLayer:
    if not isinstance(layer, PreNormLayer | SandwichNormLayer):
        raise TypeError(f"cannot adapt a {type(layer).__name__}")
    if not isinstance(layer.attention, SelfAttention):
        raise TypeError(f"cannot adapt a {type(layer.attention).__name__}")
    attention, mlp = _adapt_attention(layer.attention, index, step), _adapt_mlp(layer.mlp, index, step)
    return replace(layer, attention=attention, mlp=mlp)


def _adapt_attention(attention: SelfAttention, index: int, step: StepAdapters) -> SelfAttention:
    qkv = _adapt_linear(attention.qkv, step.updates(index, "qkv"))
    return replace(attention, qkv=qkv, output=_adapt_linear(attention.output, step.updates(index, "output")))


def _adapt_mlp(mlp: Mlp, index: int, step: StepAdapters) -> Mlp:
    gate_up, down = step.updates(index, "gate_up"), step.updates(index, "down")
    if not gate_up and not down:
        return mlp
    if not isinstance(mlp, GatedMlp):
        raise TypeError(f"cannot adapt a {type(mlp).__name__}")
    return replace(mlp, gate_up=_adapt_linear(mlp.gate_up, gate_up), down=_adapt_linear(mlp.down, down))


def _adapt_linear(linear: Linear, updates: tuple[RowUpdate, ...]) -> Linear:
    if not updates:
        return linear
    return linear.adapted(updates) if isinstance(linear, Adaptable) else AdaptedLinear(linear, updates)
