"""Builds the products of latent attention from a checkpoint's tensors."""

from collections.abc import Callable

from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, plain
from headrace.engine.torch.latent.latent_output import LatentOutput
from headrace.engine.torch.latent.latent_projection import LatentProjection
from headrace.engine.torch.operators.operators import Operators


class LatentReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

    def __init__(
        self,
        config: DecoderConfig,
        latent: LatentConfig,
        weights: DecoderWeights[Tensor, Weight],
        operators: Operators,
    ) -> None:
        self._config = config
        self._latent = latent
        self._weights = weights
        self._operators = operators

    def read(self, index: int) -> tuple[LatentProjection, LatentOutput]:
        """Reads what stands before and behind the attention of a layer."""
        latent, linear = self._latent, self._operators.linear
        prefix = f"model.layers.{index}.self_attn"
        keys = self._weights.latent_keys(index, latent)
        up = plain(self._weights.latent_up(index, latent)).view(self._config.head_count, -1, latent.kv_rank)
        absorbed = [linear(head[: latent.still_size].T.contiguous()) for head in up]
        values = [linear(head[latent.still_size :].contiguous()) for head in up]
        queries = self._weights.latent_queries(index, latent)
        projection = LatentProjection(
            latent,
            self._query_inputs(index),
            linear(queries.weight, queries.bias),
            absorbed,
            linear(keys.weight, keys.bias),
            self._norm(f"{prefix}.kv_a_layernorm", latent.kv_rank),
        )
        output = self._weights.latent_output(index, latent)
        return projection, LatentOutput(latent, values, linear(output.weight, output.bias))

    def _query_inputs(self, index: int) -> Callable[[Tensor], Tensor]:
        rank = self._latent.query_rank
        if rank is None:
            return lambda inputs: inputs
        down: Projection[Tensor, Weight] = self._weights.latent_query_down(index, rank)
        linear = self._operators.linear(down.weight, down.bias)
        norm = self._norm(f"model.layers.{index}.self_attn.q_a_layernorm", rank)
        return lambda inputs: norm(linear(inputs))

    def _norm(self, name: str, size: int) -> Callable[[Tensor], Tensor]:
        return self._operators.rms_norm(self._weights.norm(name, size), self._latent.norm_epsilon)
