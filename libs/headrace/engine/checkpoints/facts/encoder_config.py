"""The facts about an encoder that its computation depends on, whichever family it is of."""

from dataclasses import dataclass, field
from typing import Literal

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme

EncoderActivation = Literal["gelu", "gelu_tanh", "relu"]


@dataclass(frozen=True, slots=True)
class EncoderNames:
    """Names of the tensors in the checkpoints of one family. The defaults are BERT's."""

    root: str = "bert"
    """Prefix of all names where the checkpoint was saved with a head."""
    word_embeddings: str = "embeddings.word_embeddings"
    position_embeddings: str = "embeddings.position_embeddings"
    type_embeddings: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    layer: str = "encoder.layer"
    """Prefix of a layer's names, followed by the number of the layer and one of those below."""
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attention_output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    output_norm: str = "output.LayerNorm"
    relative_bias: str = "encoder.relative_attention_bias"
    """Name of the bias that all layers share, in families that have it."""


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The shape of an encoder: post-norm layers in which every token sees every other (Devlin et al., 2018)."""

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    position_count: int
    """Rows of the table of positions."""
    type_count: int
    """Rows of the table of segments, of which the first is used. 0: there is none."""
    norm_epsilon: float
    activation: EncoderActivation
    precision: str
    """Precision of the checkpoint: float32, bfloat16 or float16."""
    quantization: QuantizationScheme | None
    max_model_length: int
    """Longest input, in tokens, special ones included."""
    names: EncoderNames = field(default_factory=EncoderNames)
    padding_id: int | None = None
    """Id of the padding token. Where it is set, positions are counted from the one after it, and this token's own
    position is it."""
    bucket_count: int = 0
    """Relative distances that are told apart, as in T5 (Raffel et al., 2019). 0: attention has no such bias."""

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.head_count

    @property
    def usual_length(self) -> int:
        """The longest input that needs no decision: any."""
        return self.max_model_length

    def positions(self, token_ids: tuple[int, ...]) -> list[int]:
        """The row of the table of positions of each token."""
        if self.padding_id is None:
            return list(range(len(token_ids)))
        positions: list[int] = []
        last = self.padding_id
        for token_id in token_ids:
            last += token_id != self.padding_id
            positions.append(self.padding_id if token_id == self.padding_id else last)
        return positions
