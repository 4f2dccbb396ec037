"""Builds the blocks of decoders whose layers differ from a checkpoint's tensors."""

from functools import partial

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection, query_key_norms
from headrace.engine.checkpoints.layout.input_weights import InputWeights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.layers.expert_mlp import Mixture
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import Operators, RowNorm
from headrace.engine.torch.varied.expert_addition import ExpertAddition
from headrace.engine.torch.varied.input_block import InputBlock
from headrace.engine.torch.varied.normed_heads import NormedHeads
from headrace.engine.torch.varied.token_inputs import TokenInputs


class VariedReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights[Tensor, Weight], operators: Operators) -> None:
        self._config = config
        self._weights = weights
        self._operators = operators
        inputs = config.blocks.inputs
        self._inputs = None if inputs is None else InputWeights(config, inputs, weights)

    def token_inputs(self) -> TokenInputs | None:
        """Reads what makes the inputs of all layers, where they have any of their own."""
        facts, weights = self._config.blocks.inputs, self._inputs
        if facts is None or weights is None:
            return None
        norm = self._norm(weights.projection_norm())
        return TokenInputs(facts, weights.table(), self._linear(weights.projection()), norm)

    def heads(self, index: int) -> NormedHeads:
        """Reads what makes a layer's queries, and its keys and values where it has any of its own."""
        config, sizes = self._config, self._config.heads(index)
        linear = self._linear(self._weights.qkv(index))
        prefix = f"model.layers.{index}.self_attn"
        names = query_key_norms(config, index).items()
        norms = [self._weights.norm(f"{prefix}.{name}", size) for name, size in names]
        return NormedHeads(
            linear,
            config.head_count * sizes.head_size,
            sizes.kv_head_count * sizes.head_size if len(norms) > 1 else 0,
            self._norm(norms[0]),
            self._norm(norms[-1]),
            self._norm(torch.ones_like(norms[0])),
            sizes.head_size,
        )

    def input_block(self, index: int) -> InputBlock | None:
        """Reads what adds a layer's own input, where it has one."""
        weights = self._inputs
        if weights is None:
            return None
        gate = partial(self._operators.gate, activation=self._config.activation)
        output = self._linear(weights.output(index))
        return InputBlock(self._linear(weights.gate(index)), gate, output, self._norm(weights.output_norm(index)))

    def layer_scale(self, index: int) -> Tensor:
        """Reads the factor [1] of a layer's output."""
        return self._weights.vector(f"model.layers.{index}.layer_scalar", 1)

    def expert_scales(self, index: int) -> Tensor:
        """Reads the factors [experts] of the weights of chosen experts."""
        experts = self._config.experts
        count = 0 if experts is None else experts.count
        return self._weights.vector(f"model.layers.{index}.router.per_expert_scale", count)

    def expert_addition(self, index: int, mlp: Mlp, experts: Mixture) -> ExpertAddition:
        """Puts the norms of a layer around its feed-forward block and its mixture of experts."""
        prefix = f"model.layers.{index}"
        names = ("pre_feedforward_layernorm", "post_feedforward_layernorm_1")
        mlp_norm, post_mlp_norm = (self._layer_norm(f"{prefix}.{name}") for name in names)
        hidden_size = self._config.hidden_size
        scale = self._weights.vector(f"{prefix}.router.scale", hidden_size)
        return ExpertAddition(
            mlp_norm,
            mlp,
            post_mlp_norm,
            self._norm(scale * hidden_size**-0.5),
            self._layer_norm(f"{prefix}.pre_feedforward_layernorm_2"),
            experts,
            self._layer_norm(f"{prefix}.post_feedforward_layernorm_2"),
        )

    def _layer_norm(self, name: str) -> RowNorm:
        return self._norm(self._weights.norm(name, self._config.hidden_size))

    def _norm(self, weight: Tensor) -> RowNorm:
        return self._operators.rms_norm(weight, self._config.rms_norm_epsilon)

    def _linear(self, projection: Projection[Tensor, Weight]) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)
