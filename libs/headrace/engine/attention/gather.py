"""Attention by gathering each sequence's blocks into one tensor and two batched products.

The arithmetic of a query does not depend on its company, on the length of the padding, or on where chunks of the
prompt began: products have at least ROW_TILE rows, and values are summed in tiles of KEY_TILE keys in order, to
which masked keys add exact zeros. For the same reason, whole tiles before a sliding window may be left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.attention.kv_cache import KvLayer
from headrace.engine.layers.linear import ROW_TILE

KEY_TILE = 128
"""Keys per product with values. Key counts are padded to a multiple of it."""


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Sequences that attend in one call, each with the same number of queries."""

    rows: slice
    """Their tokens among those of the step."""
    sequence_count: int
    block_rows: Tensor
    """See `KvCache.block_rows`. Each sequence has the same number of blocks, a multiple of KEY_TILE tokens. They
    begin with the tile in which the first key lies that any of its queries sees."""
    mask: Tensor
    """0 or -inf, to be added to the scores: [sequences x kv heads or 1, query rows or 1, keys]."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How queries and keys become scores."""

    scale: float
    """What their products are multiplied by."""
    soft_cap: float | None = None
    """Scores s become cap * tanh(s / cap), as in Gemma 2."""

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[batch, queries, head] and [batch, keys, head] to [batch, queries, keys]."""
        if self.soft_cap is None:
            return torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self.scale)
        scores = torch.bmm(queries, keys.transpose(1, 2)).mul_(self.scale / self.soft_cap)
        return scores.tanh_().mul_(self.soft_cap).add_(mask)


def attend(queries: Tensor, layer: KvLayer, groups: list[AttentionGroup], scoring: Scoring) -> Tensor:
    """Attention of `queries` [tokens, heads, head] over the cached keys of their sequences: [tokens, heads x head]."""
    if len(groups) == 1 and groups[0].rows == slice(0, len(queries)):
        return _attend_group(queries, layer, groups[0], scoring)
    outputs = torch.zeros_like(queries).flatten(1)
    for group in groups:
        outputs[group.rows] = _attend_group(queries[group.rows], layer, group, scoring)
    return outputs


def _attend_group(queries: Tensor, layer: KvLayer, group: AttentionGroup, scoring: Scoring) -> Tensor:
    """[tokens, heads, head] to [tokens, heads x head]. Queries that share a KV head become rows of one product."""
    token_count, head_count, head_size = queries.shape
    share = head_count // layer.kv_head_count
    keys, values = layer.gather(group.block_rows, group.sequence_count)
    if token_count == group.sequence_count:
        outputs = _weigh(queries.reshape(-1, share, head_size), keys, values, group.mask, scoring)
        return outputs.reshape(token_count, head_count * head_size)
    split = (group.sequence_count, -1, layer.kv_head_count, share, head_size)
    folded = queries.view(split).transpose(1, 2)  # [sequences, kv heads, queries, share, head]
    outputs = _weigh(folded.reshape(len(keys), -1, head_size), keys, values, group.mask, scoring)
    return outputs.view(folded.shape).transpose(1, 2).reshape(token_count, head_count * head_size)


def _weigh(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scoring: Scoring) -> Tensor:
    """Softmax attention [batch, rows, head]: scores in one product, values tile by tile."""
    weights = torch.softmax(scoring(_fill_tile(queries), keys, mask), dim=-1)
    if keys.shape[1] == KEY_TILE:
        return torch.bmm(weights, values)[:, : queries.shape[1]]
    tiles = zip(torch.split(weights, KEY_TILE, dim=2), torch.split(values, KEY_TILE, dim=1), strict=True)
    outputs = torch.bmm(*next(tiles))
    for tile_weights, tile_values in tiles:
        outputs.baddbmm_(tile_weights, tile_values)
    return outputs[:, : queries.shape[1]]


def _fill_tile(queries: Tensor) -> Tensor:
    """Repeats the first row until the row count is a multiple of ROW_TILE."""
    batch, row_count, head_size = queries.shape
    missing = -row_count % ROW_TILE
    if not missing:
        return queries
    return torch.cat((queries, queries[:, :1].expand(batch, missing, head_size)), dim=1)
