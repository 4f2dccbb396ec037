"""The facts about an encoder that determine its computation, whatever its family."""

from dataclasses import dataclass, field
from typing import Literal

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules

EncoderActivation = Literal["gelu", "gelu_tanh", "relu", "silu"]


@dataclass(frozen=True, slots=True)
class EncoderNames:
    """Names of the tensors in the checkpoints of one family. The defaults are BERT's."""

    root: str = "bert"
    """Prefix of all names in checkpoints saved with a head."""
    word_embeddings: str = "embeddings.word_embeddings"
    position_embeddings: str = "embeddings.position_embeddings"
    """Empty in families whose queries and keys rotate instead."""
    type_embeddings: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    layer: str = "encoder.layer"
    """Prefix of a layer's names, followed by the layer's index and one of the names below."""
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    qkv: str = ""
    """Name of query, key and value as one matrix, where checkpoints have them so."""
    attention_output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    gate: str = ""
    """Name of the gates, in families that have them apart from `up`."""
    up: str = "intermediate.dense"
    down: str = "output.dense"
    output_norm: str = "output.LayerNorm"
    relative_bias: str = "encoder.relative_attention_bias"
    """Name of the bias that all layers share, in families that have one."""
    final_norm: str = ""
    """Name of the norm of the last hidden states, in families that have one."""


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The shape of an encoder: layers in which tokens see those after them too. The defaults are BERT's (Devlin et al.,
    2018), with norms behind blocks."""

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    position_count: int
    """Rows of the position embedding table. 1 without such a table."""
    type_count: int
    """Rows of the segment embedding table; only the first is used, and the second for pairs of texts. 0: no table."""
    norm_epsilon: float
    activation: EncoderActivation
    precision: str
    """Precision of the checkpoint: float32, bfloat16 or float16."""
    quantization: QuantizationScheme | None
    max_model_length: int
    """Longest input in tokens, including special tokens."""
    names: EncoderNames = field(default_factory=EncoderNames)
    padding_id: int | None = None
    """Id of the padding token. If set, positions start after it, and padding tokens themselves have this position."""
    bucket_count: int = 0
    """Number of buckets for relative distances, as in T5 (Raffel et al., 2019). 0: attention has no such bias."""
    normalizes_inputs: bool = False
    """Whether norms stand before blocks, and the first layer's attention has none."""
    is_gated: bool = False
    """Whether the feed-forward block has gates (Shazeer, 2020)."""
    has_ups_first: bool = False
    """Whether checkpoints that have gates and ups as one matrix have the ups first."""
    thetas: tuple[float, ...] = ()
    """Base of the rotary frequencies in each layer (Su et al., 2021). Empty: queries and keys do not rotate."""
    windows: tuple[int | None, ...] = ()
    """Tokens on either side that a query sees in each layer, itself included. None: no limit. Empty: none has any."""
    unbiased: frozenset[str] = frozenset()
    """Names of a layer's modules that have no bias, and of norms."""
    scoring: ScoringModules | None = None
    """Classifier with one label that scores pairs of texts. None: the model makes embeddings."""
    separator_id: int | None = None
    """Token that ends the first text of a pair. If set, all tokens after the first such have the second segment."""

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.head_count

    @property
    def usual_length(self) -> int:
        """Longest input that needs no choice by the user: any."""
        return self.max_model_length

    @property
    def segment_count(self) -> int:
        """Segments that inputs have: that many copies of the position embedding table are used, each with one added."""
        return 1 if self.separator_id is None else 2

    def positions(self, token_ids: tuple[int, ...]) -> list[int]:
        """Returns the row of the position embedding tables for each token."""
        positions = self._positions(token_ids)
        if self.separator_id in token_ids:
            second = token_ids.index(self.separator_id) + 1
            positions[second:] = [position + self.position_count for position in positions[second:]]
        return positions

    def window(self, index: int) -> int | None:
        """Returns the window of a layer."""
        return self.windows[index] if self.windows else None

    def _positions(self, token_ids: tuple[int, ...]) -> list[int]:
        if not self.names.position_embeddings:
            return [0] * len(token_ids)
        if self.padding_id is None:
            return list(range(len(token_ids)))
        positions: list[int] = []
        last = self.padding_id
        for token_id in token_ids:
            last += token_id != self.padding_id
            positions.append(self.padding_id if token_id == self.padding_id else last)
        return positions
