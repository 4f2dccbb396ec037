"""Groups of a step's tokens that attend in one call."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from headrace.engine.step.step_arrays import Span
from headrace.engine.torch.attention.gather import AttentionGroup
from headrace.engine.torch.attention.paged_attention import HeadShape
from headrace.engine.torch.kv.kv_cache import KvCache

KEY_TILE = 128
"""Key counts are padded to a multiple of this, so that decodes of similar length attend together."""


MAX_SCORE_COUNT = 1 << 24
"""Maximum number of attention scores held at once. Longer chunks attend in several calls."""


@dataclass(frozen=True, slots=True)
class _Queries:
    """Consecutive tokens of one span that attend in one call."""

    span: Span
    start: int
    end: int
    window: int | None
    """Tokens that each of these tokens sees, itself included."""

    @property
    def first_key(self) -> int:
        """Start of the key tile with the first key that any of these tokens sees."""
        if self.window is None:
            return 0
        return max(0, self.start + 1 - self.window) // KEY_TILE * KEY_TILE

    @property
    def key_end(self) -> int:
        return math.ceil(self.end / KEY_TILE) * KEY_TILE


class StepLayout:
    """Decides which tokens of a step attend in one call."""

    def __init__(self, heads: HeadShape, cache: KvCache, device: torch.device) -> None:
        self._heads = heads
        self._cache = cache
        self._device = device

    def groups(self, spans: Sequence[Span], window: int | None) -> list[AttentionGroup]:
        """Groups the tokens that attend in one call: decodes with the same key tiles together, prefills one by one."""
        groups: list[AttentionGroup] = []
        first = 0
        queries = [part for span in spans for part in self._split(span, window)]
        for _, together in groupby(enumerate(queries), key=lambda item: self._group_key(*item)):
            group = self._group([part for _, part in together], first)
            groups.append(group)
            first = group.rows.stop
        return groups

    def _group_key(self, index: int, queries: _Queries) -> tuple[int, int, int]:
        """Returns a key that queries share if they attend together: decodes with the same keys, and no others."""
        is_decode = queries.span.token_count == 1
        return (queries.first_key, queries.key_end, 0) if is_decode else (0, 0, index + 1)

    def _split(self, span: Span, window: int | None) -> list[_Queries]:
        """Splits a span into parts whose scores fit in `MAX_SCORE_COUNT`."""
        width = math.ceil(span.end / KEY_TILE) * KEY_TILE * self._heads.head_count
        length = max(1, MAX_SCORE_COUNT // width)
        starts = range(span.start, span.end, length)
        return [_Queries(span, start, min(start + length, span.end), window) for start in starts]

    def _group(self, members: list[_Queries], first: int) -> AttentionGroup:
        head = members[0]
        first_block, block_end = (key // self._cache.block_size for key in (head.first_key, head.key_end))
        padding = [self._cache.zero_block] * block_end
        tables = [[*queries.span.table.tolist(), *padding][first_block:block_end] for queries in members]
        query_count = head.end - head.start
        mask = self._decode_mask(members) if query_count == 1 else self._prefill_mask(head)
        return AttentionGroup(
            rows=slice(first, first + query_count * len(members)),
            sequence_count=len(members),
            block_rows=self._cache.block_rows(torch.tensor(tables)).to(self._device),
            mask=mask.to(self._device, self._cache.dtype),
        )

    def _decode_mask(self, members: list[_Queries]) -> Tensor:
        """Returns the mask [sequences x kv heads, 1, keys] of decodes: each sequence sees up to its own length."""
        ends = torch.tensor([queries.end for queries in members]).repeat_interleave(self._heads.kv_head_count)
        return _mask(members[0], ends[:, None, None])

    def _prefill_mask(self, queries: _Queries) -> Tensor:
        """Returns a prefill's causal mask [1, query rows, keys]. Queries that share a KV head are adjacent rows."""
        ends = torch.arange(queries.start + 1, queries.end + 1)
        return _mask(
            queries, ends.repeat_interleave(self._heads.head_count // self._heads.kv_head_count)[None, :, None]
        )


def _mask(queries: _Queries, ends: Tensor) -> Tensor:
    """Returns a mask: 0 for keys before `ends` and inside the window of `queries`, -inf for the others."""
    keys = torch.arange(queries.first_key, queries.key_end)
    seen = keys < ends
    if queries.window is not None:
        seen &= keys >= ends - queries.window
    return torch.zeros(1).where(seen, -math.inf)
