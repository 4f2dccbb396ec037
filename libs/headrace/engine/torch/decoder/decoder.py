"""The decoder common to all families: an embedding, layers over a paged KV cache, a norm and a head."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layer_angles import layer_angles
from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.checkpoints.packing.weight_forms import AS_READ, WeightForms
from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention, PagedAttention
from headrace.engine.torch.decoder.adapted_layer import adapted
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer
from headrace.engine.torch.decoder.decoder_part import WHOLE, DecoderPart
from headrace.engine.torch.decoder.decoder_reader import DecoderReader
from headrace.engine.torch.decoder.input_layer import fed
from headrace.engine.torch.decoder.joined_layers import JoinedLayers
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.decoder.token_embedding import PlainEmbedding
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import Operators


class Decoder:
    """A decoder with its weights. Holds no request state; the KV cache does."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: WeightSource,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
        *,
        part: DecoderPart = WHOLE,
        forms: WeightForms = AS_READ,
    ) -> None:
        """Reads a decoder, or a part of one. Without a head it returns hidden states instead of logits. `forms`:
        other forms than plain numbers that products take. Raises InvalidCheckpoint if `weights` do not fit."""
        self._config = config
        self._operators = operators
        self._part = part
        self._reader = DecoderReader(config, weights, operators, dtype, device, forms)
        scores = config.has_head and part.ends
        reads_embedding = part.begins or (scores and config.tied_embeddings)
        self._embedding = self._reader.embedding() if reads_embedding else PlainEmbedding(torch.empty(0))
        self._embedding_norm = self._reader.embedding_norm() if part.begins else None
        self._inputs = self._reader.token_inputs() if part.begins else None
        self._streams = self._reader.streams()
        self._layers = [self._reader.layer(index) for index in range(config.layer_count)]
        self._joined: JoinedLayers | None = None
        self._norm = self._reader.norm("model.norm") if part.ends else None
        self._head = self._reader.head(self._embedding, part.head_rows) if scores else None
        self._embedding_scale = torch.tensor(config.embedding_scale, dtype=dtype, device=device)

    @property
    def parameter_count(self) -> int:
        return self._reader.parameter_count

    @property
    def vocabulary_size(self) -> int:
        """Logits of a row."""
        return self._config.vocabulary_size

    @property
    def heads(self) -> HeadShape:
        """Attention settings that all layers share."""
        config = self._config
        return HeadShape(
            config.head_count,
            config.kv_head_count,
            config.head_size,
            config.rotary_size,
            config.attention_scale,
            config.attention_soft_cap,
            config.rms_norm_epsilon,
            config.norms_rotated,
        )

    @property
    def states(self) -> StateConfig | None:
        """Layers that keep a state. None: there are none."""
        return self._config.blocks.states

    def attentions(self, max_len: int) -> list[LayerAttention]:
        """Returns the attention settings of each layer that attends, for contexts of up to `max_len` tokens."""
        angles = layer_angles(self._config, max_len)
        return [self._attention(index, angles[index]) for index in self._config.kv_layers]

    @property
    def layers(self) -> Sequence[DecoderLayer]:
        return self._layers

    def replace_layers(self, layers: Sequence[DecoderLayer]) -> None:
        """Replaces the layers, for example with observed versions of the same ones."""
        self._layers = list(layers)
        self._joined = None

    def join(self, joined: JoinedLayers | None) -> None:
        """Has the layers computed together in each step that `joined` takes and that has no adapters."""
        self._joined = joined

    def __call__(self, step: StepTensors, attention: PagedAttention) -> Tensor:
        """Computes logits [rows, vocabulary] in fp32 for `step.logit_rows`, or without a head the normalized hidden
        states [rows, hidden]; a part that does not end returns the hidden states [tokens, hidden]. Expects
        `attention.begin` to have run for the step, and fills its cache for all tokens."""
        hidden = self._embed(step) if step.hidden is None else step.hidden
        hidden = self._run_layers(hidden, step, attention)
        if self._norm is None:
            return hidden
        wanted = hidden.index_select(0, step.logit_rows)
        normalized = self._norm(wanted) if len(wanted) else wanted
        return normalized.float() if self._head is None else self._score(self._head, normalized)

    def _run_layers(self, hidden: Tensor, step: StepTensors, attention: PagedAttention) -> Tensor:
        joined = self._joined if step.adapters is None and step.auxiliary is None else None
        if joined is not None and joined.takes(hidden, attention):
            return joined(hidden, attention)
        layers = self._layers if step.adapters is None else adapted(self._layers, step.adapters)
        if self._inputs is not None:
            layers = fed(layers, self._inputs(_token_ids(step), hidden))
        if self._streams is not None:
            hidden = self._streams.spread(hidden)
        for index, layer in enumerate(layers):
            step.keep(index, hidden)
            hidden = layer(hidden, attention)
        step.keep(len(layers), hidden)
        return hidden if self._streams is None else self._streams.merge(hidden)

    def embed(self, token_ids: Tensor) -> Tensor:
        """Returns the rows [tokens, hidden] of the embedding table, unscaled."""
        return self._embedding(token_ids)

    def score(self, normalized: Tensor) -> Tensor:
        """Returns logits fp32 [rows, vocabulary] of normalized hidden states [rows, hidden]. The decoder must have a
        head."""
        if self._head is None:
            raise ValueError("this part of the decoder has no head")
        return self._score(self._head, normalized)

    def _embed(self, step: StepTensors) -> Tensor:
        hidden = self._embedding(_token_ids(step))
        if self._embedding_norm is not None:
            hidden = self._embedding_norm(hidden)
        return hidden if self._config.embedding_scale == 1.0 else hidden.mul_(self._embedding_scale)

    def _score(self, head: Linear, hidden: Tensor) -> Tensor:
        if not len(hidden):
            row_count = len(range(self._config.vocabulary_size)[self._part.head_rows])
            return hidden.new_empty((0, row_count), dtype=torch.float32)
        logits, cap = head(hidden).float(), self._config.logit_soft_cap
        return logits if cap is None else self._operators.soft_cap(logits, cap)

    def _attention(self, index: int, angles: tuple[Floats, Floats]) -> LayerAttention:
        query_norm, key_norm = self._reader.head_norms(index)
        return LayerAttention(self._config.windows[index], angles, query_norm, key_norm, self._reader.sinks(index))


def _token_ids(step: StepTensors) -> Tensor:
    """Returns the ids of a step's tokens, with those of the step before in place of what stands for them."""
    return step.token_ids if step.chosen is None else step.chosen.resolve(step.token_ids)
