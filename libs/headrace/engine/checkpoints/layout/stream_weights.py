"""The tensors of streams of hidden states, and of the product of low rank beside attention."""

from typing import Generic

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layers.stream_config import StreamConfig
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, Projection, WeightT


class StreamWeights(Generic[ArrayT, WeightT]):
    """Reads each tensor once. Raises InvalidCheckpoint if one does not fit."""

    def __init__(self, config: DecoderConfig, streams: StreamConfig, weights: DecoderWeights[ArrayT, WeightT]) -> None:
        self._hidden_size = config.hidden_size
        self._streams = streams
        self._weights = weights

    def spreading(self) -> list[Projection[ArrayT, WeightT]]:
        """Reads the products from embeddings to each stream but the first."""
        return self._between("model.altup_projections")

    def merging(self) -> list[Projection[ArrayT, WeightT]]:
        """Reads the products from each stream but the first to what the last norm reads."""
        return self._between("model.altup_unembed_projections")

    def router(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads the product [streams, hidden] that weighs predictions and corrections."""
        return self._altup(index, "modality_router", self._streams.count, self._hidden_size)

    def router_norm(self, index: int) -> ArrayT:
        return self._weights.norm(f"model.layers.{index}.altup.router_norm", self._hidden_size)

    def prediction(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads the product that makes the shares of each stream in each prediction."""
        return self._altup(index, "prediction_coefs", self._streams.count**2, self._streams.count)

    def correction(self, index: int) -> Projection[ArrayT, WeightT]:
        return self._altup(index, "correction_coefs", self._streams.count, self._streams.count)

    def output_scale(self, index: int) -> ArrayT:
        """Reads the factors [hidden] of the computed stream before the layer's own input."""
        return self._weights.vector(f"model.layers.{index}.altup.correct_output_scale", self._hidden_size)

    def low_rank(self, index: int) -> list[Projection[ArrayT, WeightT]]:
        """Reads the two products beside attention."""
        prefix, rank, size = f"model.layers.{index}.laurel", self._streams.rank, self._hidden_size
        sizes = {"linear_left": (rank, size), "linear_right": (size, rank)}
        return [self._projection(f"{prefix}.{name}", *each) for name, each in sizes.items()]

    def low_rank_norm(self, index: int) -> ArrayT:
        return self._weights.norm(f"model.layers.{index}.laurel.post_laurel_norm", self._hidden_size)

    def _between(self, prefix: str) -> list[Projection[ArrayT, WeightT]]:
        size, count = self._hidden_size, self._streams.count - 1
        return [self._projection(f"{prefix}.{number}", size, size) for number in range(count)]

    def _altup(self, index: int, name: str, out_size: int, in_size: int) -> Projection[ArrayT, WeightT]:
        return self._projection(f"model.layers.{index}.altup.{name}", out_size, in_size)

    def _projection(self, name: str, out_size: int, in_size: int) -> Projection[ArrayT, WeightT]:
        return self._weights.projection({name: out_size}, in_size, has_bias=False)
