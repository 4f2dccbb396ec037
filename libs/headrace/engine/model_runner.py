"""Turns a step's chunks into tensors, runs the model and hands back logits. Owns the KV cache."""

import math
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from headrace.engine.adapters.adapter_set import AdapterSet
from headrace.engine.attention.gather import KEY_TILE, AttentionGroup
from headrace.engine.attention.kv_cache import KvCache
from headrace.engine.layers.linear import ROW_TILE
from headrace.engine.models.decoder import Decoder
from headrace.engine.models.step_tensors import StepTensors
from headrace.engine.sampling.torch_sampler import TorchSampler
from headrace.engine.step_logits import LogitRows, StepLogits
from headrace.engine.step_plan import Chunk, StepPlan

MAX_SCORE_COUNT = 1 << 24
"""Attention scores held at once. Longer chunks attend in several calls."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive tokens of one chunk that attend in one call."""

    chunk: Chunk
    start: int
    end: int
    window: int | None
    """Tokens that each of them sees, itself included."""

    @property
    def first_key(self) -> int:
        """Where the tile begins in which the first key lies that any of them sees."""
        if self.window is None:
            return 0
        return max(0, self.start + 1 - self.window) // KEY_TILE * KEY_TILE

    @property
    def key_end(self) -> int:
        return math.ceil(self.end / KEY_TILE) * KEY_TILE


class ModelRunner:
    """Runs plans through one model."""

    def __init__(
        self,
        model: Decoder,
        cache: KvCache,
        head_count: int,
        kv_head_count: int,
        device: torch.device,
        adapters: AdapterSet | None = None,
    ) -> None:
        """Without `adapters`, what requests choose is passed over."""
        self.sampler = TorchSampler()
        self._model = model
        self._cache = cache
        self._head_count = head_count
        self._kv_head_count = kv_head_count
        self._device = device
        self._adapters = adapters

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan wants."""
        chunks = sorted(plan.chunks, key=lambda chunk: (chunk.token_count > 1, chunk.computed_end))
        wanted = LogitRows.of(chunks)
        return wanted.filled(self._model(self._build(chunks, wanted.rows), self._cache))

    @torch.inference_mode()
    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content is not to be trusted."""
        self._cache.clear(blocks)

    def sleep(self) -> None:
        """Gives the memory of the KV cache back. Nothing can be run until `wake`."""
        self._cache.release()

    @torch.inference_mode()
    def wake(self) -> None:
        """Takes memory for the KV cache again. It is empty."""
        self._cache.allocate()

    def _build(self, chunks: list[Chunk], logit_rows: list[int]) -> StepTensors:
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        block_size = self._cache.block_size
        for chunk in chunks:
            token_ids += chunk.token_ids
            positions += range(chunk.start, chunk.computed_end)
            table = chunk.sequence.block_table
            slots += [
                table[index // block_size] * block_size + index % block_size
                for index in range(chunk.start, chunk.computed_end)
            ]
        return StepTensors(
            token_ids=self._tensor(token_ids),
            positions=self._tensor(positions),
            write_rows=self._cache.token_rows(torch.tensor(slots)).to(self._device),
            groups={window: self._groups(chunks, window) for window in self._model.windows},
            logit_rows=self._tensor(logit_rows),
            adapters=self._adapters.rows_of(chunks) if self._adapters else None,
        )

    def _groups(self, chunks: list[Chunk], window: int | None) -> list[AttentionGroup]:
        """Decodes with the same key tiles attend together, prefill spans one by one."""
        groups: list[AttentionGroup] = []
        first = 0
        spans = [span for chunk in chunks for span in self._split(chunk, window)]
        for _, company in groupby(enumerate(spans), key=lambda item: self._group_key(*item)):
            members = [span for _, span in company]
            group = self._group(members, first)
            groups.append(group)
            first = group.rows.stop
        return groups

    def _group_key(self, index: int, span: _Span) -> tuple[int, int, int]:
        """Spans with the same key attend together: decodes by the keys they see, others alone."""
        is_decode = span.chunk.token_count == 1
        return (span.first_key, span.key_end, 0) if is_decode else (0, 0, index + 1)

    def _split(self, chunk: Chunk, window: int | None) -> list[_Span]:
        """Parts of a chunk whose scores fit `MAX_SCORE_COUNT`."""
        width = math.ceil(chunk.computed_end / KEY_TILE) * KEY_TILE * self._head_count
        length = max(1, MAX_SCORE_COUNT // width)
        starts = range(chunk.start, chunk.computed_end, length)
        return [_Span(chunk, start, min(start + length, chunk.computed_end), window) for start in starts]

    def _group(self, spans: list[_Span], first: int) -> AttentionGroup:
        first_block, block_end = (key // self._cache.block_size for key in (spans[0].first_key, spans[0].key_end))
        padding = [self._cache.zero_block] * block_end
        tables = [[*span.chunk.sequence.block_table, *padding][first_block:block_end] for span in spans]
        query_count = spans[0].end - spans[0].start
        mask = self._decode_mask(spans) if query_count == 1 else self._prefill_mask(spans[0])
        return AttentionGroup(
            rows=slice(first, first + query_count * len(spans)),
            sequence_count=len(spans),
            block_rows=self._cache.block_rows(torch.tensor(tables)).to(self._device),
            mask=mask.to(self._device, self._cache.dtype),
        )

    def _decode_mask(self, spans: list[_Span]) -> Tensor:
        """[sequences x kv heads, 1, keys]: each sequence sees its own length."""
        ends = torch.tensor([span.end for span in spans]).repeat_interleave(self._kv_head_count)
        return _mask(spans[0], ends[:, None, None])

    def _prefill_mask(self, span: _Span) -> Tensor:
        """[1, query rows, keys]: each token sees itself and those before it. The queries that share a KV head are
        neighbours; rows that only fill up the tile see as much as the last one."""
        ends = torch.arange(span.start + 1, span.end + 1).repeat_interleave(self._head_count // self._kv_head_count)
        ends = torch.nn.functional.pad(ends, (0, -len(ends) % ROW_TILE), value=span.end)
        return _mask(span, ends[None, :, None])

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)


def _mask(span: _Span, ends: Tensor) -> Tensor:
    """0 for the keys of `span` before `ends` that its window lets through, -inf for the others."""
    keys = torch.arange(span.first_key, span.key_end)
    seen = keys < ends
    if span.window is not None:
        seen &= keys >= ends - span.window
    return torch.zeros(1).where(seen, -math.inf)
