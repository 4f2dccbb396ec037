"""Attention on any device: gathers each sequence's blocks into one tensor, then computes two batched products."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.attention.scoring import Scoring
from headrace.engine.torch.kv.kv_layer import KvLayer


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Sequences that attend in one call, each with the same number of queries."""

    rows: slice
    """Rows of the sequences' tokens in the step."""
    sequence_count: int
    block_rows: Tensor
    """Cache rows of the sequences' blocks, see `KvCache.block_rows`. Each sequence has the same number of blocks,
    starting with the block of the first key that any of its queries sees."""
    mask: Tensor
    """Mask of 0 or -inf, added to the scores: [sequences x kv heads or 1, query rows or 1, keys]."""


def attend(
    queries: Tensor, layer: KvLayer, groups: list[AttentionGroup], scoring: Scoring, sinks: Tensor | None = None
) -> Tensor:
    """Attends from `queries` [tokens, heads, head] to their sequences' cached keys: [tokens, heads x head]. `sinks`
    [KV heads, query heads of each] are scores that softmax counts beside those of keys."""
    if len(groups) == 1 and groups[0].rows == slice(0, len(queries)):
        return _attend_group(queries, layer, groups[0], scoring, sinks)
    outputs = torch.zeros_like(queries).flatten(1)
    for group in groups:
        outputs[group.rows] = _attend_group(queries[group.rows], layer, group, scoring, sinks)
    return outputs


def _attend_group(
    queries: Tensor, layer: KvLayer, group: AttentionGroup, scoring: Scoring, sinks: Tensor | None
) -> Tensor:
    """Maps [tokens, heads, head] to [tokens, heads x head]. Queries that share a KV head become rows of one product."""
    token_count, head_count, head_size = queries.shape
    share = head_count // layer.kv_head_count
    keys, values = layer.gather(group.block_rows, group.sequence_count)
    if token_count == group.sequence_count:
        outputs = _weigh(queries.reshape(-1, share, head_size), keys, values, group.mask, scoring, sinks)
        return outputs.reshape(token_count, head_count * head_size)
    split = (group.sequence_count, -1, layer.kv_head_count, share, head_size)
    folded = queries.view(split).transpose(1, 2)  # [sequences, kv heads, queries, share, head]
    outputs = _weigh(folded.reshape(len(keys), -1, head_size), keys, values, group.mask, scoring, sinks)
    return outputs.view(folded.shape).transpose(1, 2).reshape(token_count, head_count * head_size)


def _weigh(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scoring: Scoring, sinks: Tensor | None
) -> Tensor:
    """Computes softmax attention: [batch, rows, head]. Rows are those of the query heads of a KV head, in turn."""
    scores = scoring(queries, keys, mask)
    if sinks is None:
        return torch.bmm(torch.softmax(scores, dim=-1), values)
    kv_heads, share = sinks.shape
    own = sinks.to(scores.dtype).repeat(len(scores) // kv_heads, scores.shape[1] // share)
    weights = torch.softmax(torch.cat([scores, own.unsqueeze(-1)], dim=-1), dim=-1)
    return torch.bmm(weights[..., :-1], values)
