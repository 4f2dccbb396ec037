"""Builds what computes streams of hidden states from a checkpoint's tensors."""

from functools import partial

from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layers.stream_config import StreamConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.layout.stream_weights import StreamWeights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import Operators, RowNorm
from headrace.engine.torch.varied.hidden_streams import HiddenStreams
from headrace.engine.torch.varied.low_rank_residual import LowRankResidual
from headrace.engine.torch.varied.stream_update import StreamUpdate


class StreamReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

    def __init__(
        self,
        config: DecoderConfig,
        streams: StreamConfig,
        weights: DecoderWeights[Tensor, Weight],
        operators: Operators,
    ) -> None:
        self._config = config
        self._streams = streams
        self._weights = StreamWeights(config, streams, weights)
        self._operators = operators

    def streams(self) -> HiddenStreams:
        """Reads what stands before the first layer and behind the last one."""
        spreading = [self._linear(each) for each in self._weights.spreading()]
        return HiddenStreams(spreading, [self._linear(each) for each in self._weights.merging()])

    def update(self, index: int) -> StreamUpdate:
        """Reads what predicts and corrects the streams around a layer."""
        weights = self._weights
        return StreamUpdate(
            self._streams.active,
            self._norm(weights.router_norm(index) / self._config.hidden_size),
            self._linear(weights.router(index)),
            partial(self._operators.soft_cap, cap=1.0),
            self._linear(weights.prediction(index)),
            self._linear(weights.correction(index)),
        )

    def low_rank(self, index: int) -> LowRankResidual:
        """Reads what stands beside a layer's attention."""
        down, up = map(self._linear, self._weights.low_rank(index))
        return LowRankResidual(down, up, self._norm(self._weights.low_rank_norm(index)))

    def output_scale(self, index: int) -> Tensor | None:
        """Reads the factors [hidden] of the computed stream. None: the model does not use them."""
        scale = self._weights.output_scale(index)
        return scale if self._streams.scales_output else None

    def _norm(self, weight: Tensor) -> RowNorm:
        return self._operators.rms_norm(weight, self._config.rms_norm_epsilon)

    def _linear(self, projection: Projection[Tensor, Weight]) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)
