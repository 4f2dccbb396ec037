"""The decoder that all families are: an embedding, layers over a paged KV cache, a norm and a head."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.adapters.adapted_layer import adapted
from headrace.engine.attention.kv_cache import KvCache
from headrace.engine.layers.linear import Linear
from headrace.engine.layers.rope_scaling import RopeScaling
from headrace.engine.layers.rotary import RotaryTable
from headrace.engine.loader.weight_source import WeightSource
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.decoder_layer import DecoderLayer
from headrace.engine.models.decoder_reader import DecoderReader
from headrace.engine.models.step_tensors import StepTensors


class Decoder:
    """A decoder with its weights. Holds no state of any request: that is in the KV cache."""

    def __init__(
        self,
        config: DecoderConfig,
        max_len: int,
        weights: WeightSource,
        dtype: torch.dtype,
        device: torch.device,
        *,
        has_head: bool = True,
    ) -> None:
        """`max_len` is the longest context in tokens. Without its head it gives hidden states instead of logits.

        Raises InvalidCheckpoint where `weights` do not suit.
        """
        self._config = config
        self._reader = DecoderReader(config, weights, dtype, device)
        self._embedding = self._reader.embedding()
        self._layers = [self._reader.layer(index) for index in range(config.layer_count)]
        self._norm = self._reader.norm("model.norm")
        self._head = self._reader.head(self._embedding) if has_head else None
        self._embedding_scale = torch.tensor(config.embedding_scale, dtype=dtype, device=device)
        self._rotaries = self._build_rotaries(max_len, dtype, device)

    @property
    def parameter_count(self) -> int:
        return self._reader.parameter_count

    @property
    def windows(self) -> frozenset[int | None]:
        """The windows that its layers have: see `StepTensors.groups`."""
        return frozenset(self._config.windows)

    @property
    def layers(self) -> Sequence[DecoderLayer]:
        return self._layers

    def replace_layers(self, layers: Sequence[DecoderLayer]) -> None:
        """Puts other layers in place of its own, such as the same ones watched."""
        self._layers = list(layers)

    def __call__(self, step: StepTensors, cache: KvCache) -> Tensor:
        """Logits [rows, vocabulary] in fp32 for `step.logit_rows`, or without a head the normalised hidden states
        [rows, hidden]. Fills the cache for all of the step's tokens."""
        hidden = self._embed(step.token_ids)
        rotations = {rotary: rotary.at(step.positions) for rotary in set(self._rotaries)}
        layers = self._layers if step.adapters is None else adapted(self._layers, step.adapters)
        for layer, rotary, kv_layer in zip(layers, self._rotaries, cache.layers, strict=True):
            hidden = layer(hidden, rotations[rotary], kv_layer, step)
        normalized = self._norm(hidden.index_select(0, step.logit_rows))
        return normalized.float() if self._head is None else self._score(self._head, normalized)

    def _embed(self, token_ids: Tensor) -> Tensor:
        hidden = functional.embedding(token_ids, self._embedding)
        return hidden if self._config.embedding_scale == 1.0 else hidden.mul_(self._embedding_scale)

    def _score(self, head: Linear, hidden: Tensor) -> Tensor:
        logits, cap = head(hidden).float(), self._config.logit_soft_cap
        return logits if cap is None else logits.div_(cap).tanh_().mul_(cap)

    def _build_rotaries(self, max_len: int, dtype: torch.dtype, device: torch.device) -> list[RotaryTable]:
        """The table of each layer. Most models have one for all."""
        config = self._config
        counts = (config.head_count, config.kv_head_count)

        def build(theta: float, scaling: RopeScaling | None) -> RotaryTable:
            return RotaryTable(config.rotary_size, theta, scaling, max_len, counts, dtype, device)

        everywhere = build(config.rope_theta, config.rope_scaling)
        if config.local_rope_theta is None:
            return [everywhere] * config.layer_count
        local = build(config.local_rope_theta, None)
        return [everywhere if window is None else local for window in config.windows]
