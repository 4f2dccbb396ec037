"""The tensors that make the inputs of each layer, and add them to its hidden states."""

from typing import Generic

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layers.input_config import InputConfig
from headrace.engine.checkpoints.layout.decoder_weights import ArrayT, DecoderWeights, Projection, WeightT


class InputWeights(Generic[ArrayT, WeightT]):
    """Reads each tensor once. Raises InvalidCheckpoint if one does not fit."""

    def __init__(self, config: DecoderConfig, inputs: InputConfig, weights: DecoderWeights[ArrayT, WeightT]) -> None:
        self._hidden_size = config.hidden_size
        self._inputs = inputs
        self._width = config.layer_count * inputs.size
        self._weights = weights

    def table(self) -> ArrayT:
        """Reads the rows [vocabulary, layers x size] that tokens look up."""
        return self._weights.table("model.embed_tokens_per_layer.weight", self._inputs.vocabulary_size, self._width)

    def projection(self) -> Projection[ArrayT, WeightT]:
        """Reads the product from embeddings to the inputs of all layers."""
        sizes = {"model.per_layer_model_projection": self._width}
        return self._weights.projection(sizes, self._hidden_size, has_bias=False)

    def projection_norm(self) -> ArrayT:
        return self._weights.norm("model.per_layer_projection_norm", self._inputs.size)

    def gate(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads the product that weighs a layer's input."""
        sizes = {f"model.layers.{index}.per_layer_input_gate": self._inputs.size}
        return self._weights.projection(sizes, self._hidden_size, has_bias=False)

    def output(self, index: int) -> Projection[ArrayT, WeightT]:
        sizes = {f"model.layers.{index}.per_layer_projection": self._hidden_size}
        return self._weights.projection(sizes, self._inputs.size, has_bias=False)

    def output_norm(self, index: int) -> ArrayT:
        return self._weights.norm(f"model.layers.{index}.post_per_layer_input_norm", self._hidden_size)
