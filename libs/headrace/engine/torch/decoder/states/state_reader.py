"""Builds the layers that keep a state from a checkpoint's tensors."""

from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.state_config import ShortConvolution, StateConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.layout.state_layers import read_convolution
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.attention.token_mixer import TokenMixer
from headrace.engine.torch.decoder.states.gated_convolution import GatedConvolution
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import Operators


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

    def read(self, index: int) -> TokenMixer:
        """Reads what a layer has in the place of attention. Raises TypeError for a kind of state without a reader."""
        match self._states.mixer:
            case ShortConvolution() as facts:
                return self._convolution(facts, index)
        raise TypeError(f"there is no reader of {type(self._states.mixer).__name__}")

    def _convolution(self, facts: ShortConvolution, index: int) -> GatedConvolution:
        parts = read_convolution(self._weights, facts, index, self._config.hidden_size)
        taps = parts.taps.squeeze(1).T.contiguous()
        number = self._states.layers.index(index)
        return GatedConvolution(number, self._linear(parts.inputs), taps, parts.bias, self._linear(parts.output))

    def _linear(self, projection: Projection[Tensor, Weight]) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)
