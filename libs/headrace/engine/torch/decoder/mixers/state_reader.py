"""Builds the layers that keep a state from a checkpoint's tensors."""

from functools import partial

from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.gated_delta import GatedDelta
from headrace.engine.checkpoints.facts.states.short_convolution import ShortConvolution
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.layout.state_layers import read_convolution, read_delta, read_space
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.attention.token_mixer import TokenMixer
from headrace.engine.torch.decoder.mixers.delta_net import DeltaNet
from headrace.engine.torch.decoder.mixers.exact_functions import exp
from headrace.engine.torch.decoder.mixers.gated_convolution import GatedConvolution
from headrace.engine.torch.decoder.mixers.scaled_linear import factor_of, scaled
from headrace.engine.torch.decoder.mixers.space_mixer import SpaceMixer
from headrace.engine.torch.decoder.recurrences.choose_recurrences import choose_recurrences
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import Operators

NORM_EPSILON = 1e-6
"""Number added to the squared length of queries and keys of the delta rule, by which they are normalized."""


class StateReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

    def __init__(
        self,
        config: DecoderConfig,
        states: StateConfig,
        weights: DecoderWeights[Tensor, Weight],
        operators: Operators,
    ) -> None:
        self._config = config
        self._states = states
        self._weights = weights
        self._operators = operators
        self._recurrences = choose_recurrences(operators)

    def read(self, index: int) -> TokenMixer:
        """Reads what a layer has in the place of attention. Raises TypeError for a kind of state without a reader."""
        match self._states.mixer:
            case ShortConvolution() as facts:
                return self._convolution(facts, index)
            case GatedDelta() as facts:
                return self._delta(facts, index)
            case StateSpace() as facts:
                return self._space(facts, index)
        raise TypeError(f"there is no reader of {type(self._states.mixer).__name__}")

    def _convolution(self, facts: ShortConvolution, index: int) -> GatedConvolution:
        parts = read_convolution(self._weights, facts, index, self._config.hidden_size)
        taps = parts.taps.squeeze(1).T.contiguous()
        return GatedConvolution(
            index=self._states.layers.index(index),
            inputs=self._linear(parts.inputs),
            taps=taps,
            bias=parts.bias,
            recurrences=self._recurrences,
            output=self._linear(parts.output),
        )

    def _delta(self, facts: GatedDelta, index: int) -> DeltaNet:
        parts = read_delta(self._weights, facts, index, self._config.hidden_size)
        operators, size = self._operators, facts.key_size
        scale = parts.norm.new_full((size,), size**-0.5)
        return DeltaNet(
            index=self._states.layers.index(index),
            facts=facts,
            inputs=self._linear(parts.inputs),
            rates=self._linear(parts.rates),
            taps=parts.taps.squeeze(1).T.contiguous(),
            rate_bias=parts.rate_bias,
            decay=exp(parts.log_decay),
            query_norm=operators.rms_norm(scale * scale, NORM_EPSILON / size),
            key_norm=operators.rms_norm(scale, NORM_EPSILON / size),
            norm=operators.rms_norm(parts.norm, self._config.rms_norm_epsilon),
            activate=partial(operators.activate, activation="silu"),
            recurrences=self._recurrences,
            output=self._linear(parts.output),
        )

    def _space(self, facts: StateSpace, index: int) -> SpaceMixer:
        parts = read_space(self._weights, facts, index, self._config.hidden_size)
        sizes = (facts.inner_size, facts.inner_size, facts.group_size, facts.group_size, facts.head_count)
        factors = [factor for factor, size in zip(facts.input_factors, sizes, strict=False) for _ in range(size)]
        ones = parts.skip.new_ones(facts.inner_size // facts.group_count)
        return SpaceMixer(
            index=self._states.layers.index(index),
            facts=facts,
            inputs=scaled(self._linear(parts.inputs), parts.skip.new_tensor(factors) if factors else None),
            taps=parts.taps.squeeze(1).T.contiguous(),
            bias=parts.bias,
            step_bias=parts.step_bias,
            decay=exp(parts.log_decay),
            skip=parts.skip,
            unit_norm=self._operators.rms_norm(ones, facts.norm_epsilon),
            norm=parts.norm,
            activate=partial(self._operators.activate, activation="silu"),
            recurrences=self._recurrences,
            output=scaled(self._linear(parts.output), factor_of(parts.skip, facts.output_factor)),
        )

    def _linear(self, projection: Projection[Tensor, Weight]) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)
