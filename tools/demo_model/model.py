"""A small Llama in plain torch whose parameters carry the names of a Hugging Face checkpoint."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a model."""

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int = 2048
    positions: int = 2048
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


MAIN = Shape(hidden=256, layers=5, intermediate=640, heads=8, kv_heads=4)
DRAFT = Shape(hidden=128, layers=2, intermediate=352, heads=4, kv_heads=2)


def rotary_table(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine for every position, as Llama lays them out (halves, not pairs)."""
    exponents = torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size
    angles = torch.outer(torch.arange(length, dtype=torch.float32), shape.rope_theta**-exponents)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns queries or keys by the angle of their position."""
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


class _Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rows, length, _ = states.shape
        q, k, v = (
            layer(states).view(rows, length, -1, self.shape.head_size).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        groups = self.shape.heads // self.shape.kv_heads
        k = rotate(k, cos, sin).repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1))
        return out


class _Mlp(nn.Module):
    """The gated feed-forward part of a layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(states)) * self.up_proj(states))
        return out


class _Layer(nn.Module):
    """Attention and feed-forward, each behind a norm and added to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        self.self_attn = _Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        self.mlp = _Mlp(shape)

    def forward(self, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        states = states + self.self_attn(self.input_layernorm(states), cos, sin)
        out: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return out


class Llama(nn.Module):
    """The whole model; the output projection is the embedding itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        self.tables = rotary_table(shape, shape.positions)
        self.apply(self._start)

    def _start(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """The last hidden states; `logits` turns the wanted ones into scores."""
        cos, sin = (table[: ids.shape[1]] for table in self.tables)
        states = self.embed_tokens(ids)
        for layer in self.layers:
            states = layer(states, cos, sin)
        out: Tensor = self.norm(states)
        return out

    def logits(self, states: Tensor) -> Tensor:
        """Scores over the vocabulary."""
        return F.linear(states, self.embed_tokens.weight)
