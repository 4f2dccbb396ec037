"""One layer of a decoder: attention and a feed-forward block, each with norms and a residual."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.attention.token_mixer import TokenMixer
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.operators.operators import RowNorm


class DecoderLayer(Protocol):
    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Writes the tokens' keys and values to the cache of `attention`."""
        ...


@dataclass(frozen=True, slots=True)
class PreNormLayer:
    """Layer that normalizes each block's input (Xiong et al., 2020)."""

    attention_norm: RowNorm
    attention: TokenMixer
    mlp_norm: RowNorm
    mlp: Mlp

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        hidden = self.attention.add_to_residual(self.attention_norm(hidden), hidden, attention)
        return self.mlp.add_to_residual(self.mlp_norm(hidden), hidden)


@dataclass(frozen=True, slots=True)
class SandwichNormLayer:
    """Layer that normalizes each block's input, and its output before the residual (Ding et al., 2021), as in Gemma
    2."""

    attention_norm: RowNorm
    attention: TokenMixer
    post_attention_norm: RowNorm
    mlp_norm: RowNorm
    mlp: Mlp
    post_mlp_norm: RowNorm

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        attended = self.attention(self.attention_norm(hidden), attention)
        hidden = hidden + self.post_attention_norm(attended)
        return hidden + self.post_mlp_norm(self.mlp(self.mlp_norm(hidden)))


@dataclass(frozen=True, slots=True)
class PostNormLayer:
    """Layer that normalizes each block's output alone, before the residual (Liu et al., 2021), as in OLMo 2."""

    attention: TokenMixer
    post_attention_norm: RowNorm
    mlp: Mlp
    post_mlp_norm: RowNorm

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        hidden = hidden + self.post_attention_norm(self.attention(hidden, attention))
        return hidden + self.post_mlp_norm(self.mlp(hidden))


@dataclass(frozen=True, slots=True)
class MixingLayer:
    """Layer in which tokens meet, without a feed-forward block, as in Nemotron-H."""

    norm: RowNorm
    mixer: TokenMixer

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        return self.mixer.add_to_residual(self.norm(hidden), hidden, attention)


@dataclass(frozen=True, slots=True)
class FeedingLayer:
    """Layer that has a feed-forward block alone, as in Nemotron-H."""

    norm: RowNorm
    mlp: Mlp

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        return self.mlp.add_to_residual(self.norm(hidden), hidden)


@dataclass(frozen=True, slots=True)
class ParallelLayer:
    """Layer whose two blocks read the same hidden states (Wang and Komatsuzaki, 2021), normalized once for both, as in
    Command R, or by a norm of each, as in GPT-NeoX."""

    norm: RowNorm
    attention: TokenMixer
    mlp: Mlp
    mlp_norm: RowNorm | None = None
    """Norm of the feed-forward block's inputs. None: it reads what attention reads."""

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        normalized = self.norm(hidden)
        inputs = normalized if self.mlp_norm is None else self.mlp_norm(hidden)
        attended = self.attention.add_to_residual(normalized, hidden, attention)
        return self.mlp.add_to_residual(inputs, attended)
