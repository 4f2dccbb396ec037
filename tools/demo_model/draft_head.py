"""An EAGLE-3 draft head in plain torch, unrolled as it drafts (Li et al., 2025: training-time test)."""

import torch
from tools.demo_model.model import Shape, rotary_table, rotate
from torch import Tensor, nn
from torch.nn import functional as F

HEAD = Shape(hidden=256, layers=1, intermediate=448, heads=8, kv_heads=4)
LAYERS = (1, 3, 4)
"""Layers of the main model whose inputs the head reads."""
DRAFT_VOCABULARY = 1536


class DraftAttention(nn.Module):
    """Attention over the true states, and over the head's own ones in place of the latest."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(2 * shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(2 * shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def project(self, inputs: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [rows, heads, length, size], the first two rotated."""
        rows, length, _ = inputs.shape
        q, k, v = (
            layer(inputs).view(rows, length, -1, self.shape.head_size).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        groups = self.shape.heads // self.shape.kv_heads
        keys, values = rotate(k, cos, sin).repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        return rotate(q, cos, sin), keys, values

    def mix(self, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Draft token number `len(keys)` at every position: it sees the true states up to as many positions before, and
        of each draft token between the one that led to it."""
        depth, length = len(keys) - 1, q.shape[2]
        scale = self.shape.head_size**-0.5
        seen = torch.ones(length, length, dtype=torch.bool).tril(-depth)
        scores = [(q @ keys[0].transpose(2, 3) * scale).masked_fill(~seen, -1e9)]
        for level in range(1, depth + 1):
            own = (q * keys[level].roll(depth - level, 2)).sum(-1, keepdim=True) * scale
            scores.append(own)
        shares = torch.cat(scores, dim=3).softmax(-1)
        mixed = shares[..., :length] @ values[0]
        for level in range(1, depth + 1):
            mixed = mixed + shares[..., length + level - 1, None] * values[level].roll(depth - level, 2)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out


class DraftHead(nn.Module):
    """The head with the names that checkpoints of heads have. `embed` is the main model's embedding."""

    def __init__(self, shape: Shape, embed: Tensor, token_ids: Tensor) -> None:
        super().__init__()
        size, inner = shape.hidden, shape.intermediate
        self.shape = shape
        self.fc = nn.Linear(len(LAYERS) * size, size, bias=False)
        self.self_attn = DraftAttention(shape)
        self.input_layernorm = nn.RMSNorm(size, shape.norm_eps)
        self.hidden_norm = nn.RMSNorm(size, shape.norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(size, shape.norm_eps)
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)
        self.norm = nn.RMSNorm(size, shape.norm_eps)
        self.lm_head = nn.Linear(size, len(token_ids), bias=False)
        self.embed, self.token_ids = embed, token_ids
        self.tables = rotary_table(shape, shape.positions)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
        self.lm_head.weight.data.copy_(embed[token_ids])

    def forward(self, following: Tensor, states: Tensor, depth: int) -> list[Tensor]:
        """Logits [rows, length, draft vocabulary] of each of `depth` draft tokens. `following` [rows, length] are the
        tokens after each position, `states` [rows, length, 3 x hidden] those of the main model at it."""
        cos, sin = (table[: following.shape[1]] for table in self.tables)
        embedded = self.input_layernorm(F.embedding(following, self.embed))
        keys: list[Tensor] = []
        values: list[Tensor] = []
        logits: list[Tensor] = []
        hidden = self.fc(states)
        for _ in range(depth):
            inputs = torch.cat([embedded, self.hidden_norm(hidden)], dim=-1)
            q, k, v = self.self_attn.project(inputs, cos, sin)
            keys, values = [*keys, k], [*values, v]
            hidden = hidden + self.self_attn.mix(q, keys, values)
            normed = self.post_attention_layernorm(hidden)
            hidden = hidden + self.down_proj(F.silu(self.gate_proj(normed)) * self.up_proj(normed))
            logits.append(self.lm_head(self.norm(hidden)))
            # The state behind the token before stands for the one that is not computed yet.
            hidden = hidden.roll(1, 1)
        return logits
