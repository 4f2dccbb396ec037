"""Attention through torch on one token at a time: for a CPU without compiled kernels.

All operations have the same shape for every token, whatever the batch and the length of the text: keys are read in
order, in tiles of KEY_TILE, and masked keys add exact zeros. See `single_row_operators`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.step.step_arrays import Span, StepArrays
from headrace.engine.torch.attention.layer_attention import TorchLayer, torch_layers
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.torch.attention.scoring import Scoring
from headrace.engine.torch.kv.kv_cache import KvCache
from headrace.engine.torch.kv.kv_layer import KvLayer

KEY_TILE = 128


@dataclass(frozen=True, slots=True)
class _Token:
    position: Tensor
    """Position of the token in its sequence, int64 [1]."""
    write_rows: Tensor
    """Cache rows to write the token to, see `KvCache.token_rows`."""
    block_rows: Tensor
    """Cache rows to read, see `KvCache.block_rows`: the blocks of the token's sequence up to the token, plus padding
    for the last tile."""


class TokenAttention:
    """Implements the Protocol of `paged_attention.py` for one token at a time."""

    def __init__(self, heads: HeadShape, layers: Sequence[LayerAttention], cache: KvCache) -> None:
        self.block_count = cache.zero_block
        self._heads = heads
        self._cache = self.block_store = cache
        self._scoring = Scoring(heads.scale, heads.soft_cap)
        self._layers = torch_layers(heads, layers, cache.dtype, torch.device("cpu"))
        self._tokens: list[_Token] = []

    @property
    def byte_count(self) -> int:
        return self._cache.byte_count

    def begin(self, arrays: StepArrays) -> None:
        self._tokens = [
            self._token(span, position) for span in arrays.split() for position in range(span.start, span.end)
        ]

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Stores each token just before it attends; later tokens are masked anyway."""
        settings, kv_layer = self._layers[layer], self._cache.layers[layer]
        rows = [
            self._attend(settings, kv_layer, token, row.clone()[None])
            for token, row in zip(self._tokens, projected, strict=True)
        ]
        return torch.cat(rows)

    def clear(self, blocks: list[int]) -> None:
        self._cache.clear(blocks)

    def release(self) -> None:
        self._cache.release()

    def allocate(self) -> None:
        self._cache.allocate()

    def _token(self, span: Span, position: int) -> _Token:
        size = self._cache.block_size
        table = span.table[: position // size + 1].tolist()
        slot = table[-1] * size + position % size
        missing = -len(table) % (KEY_TILE // size)
        blocks = [*table, *[self._cache.zero_block] * missing]
        return _Token(
            torch.tensor([position]),
            self._cache.token_rows(torch.tensor([slot])),
            self._cache.block_rows(torch.tensor([blocks])),
        )

    def _attend(self, layer: TorchLayer, kv_layer: KvLayer, token: _Token, projected: Tensor) -> Tensor:
        """Maps [1, heads x head] to [1, query heads x head]."""
        rotated = layer.turn(projected, layer.rotary.at(token.position))
        kv_layer.write(token.write_rows, rotated[:, self._heads.head_count :])
        share = self._heads.head_count // self._heads.kv_head_count
        queries = rotated[0, : self._heads.head_count].float().reshape(-1, share, self._heads.head_size)
        keys, values = (torch.split(part, KEY_TILE, dim=1) for part in kv_layer.gather(token.block_rows, 1))
        last = int(token.position)
        first = 0 if layer.window is None else max(0, last + 1 - layer.window)
        seen = range(first // KEY_TILE, last // KEY_TILE + 1)
        scores = [self._score(queries, _copy(keys[tile]), tile, first, last) for tile in seen]
        largest = torch.stack([part.amax(dim=-1, keepdim=True) for part in scores]).amax(dim=0)
        sinks = torch.full_like(largest, -torch.inf) if layer.sinks is None else layer.sinks.unsqueeze(-1)
        largest = torch.maximum(largest, sinks)
        outputs, total = torch.zeros_like(queries), (sinks - largest).exp()
        for part, tile in zip(scores, seen, strict=True):
            weights = (part - largest).exp_()
            total += weights.sum(dim=-1, keepdim=True)
            outputs += torch.bmm(weights, _copy(values[tile]))
        return (outputs / total).reshape(1, -1).to(projected.dtype)

    def _score(self, queries: Tensor, keys: Tensor, tile: int, first: int, last: int) -> Tensor:
        """Returns the scores [kv heads, share, KEY_TILE] of one tile of keys."""
        places = torch.arange(tile * KEY_TILE, (tile + 1) * KEY_TILE)
        mask = torch.zeros(1).where((places >= first) & (places <= last), -torch.inf)
        return self._scoring(queries, keys, mask[None, None])


def _copy(numbers: Tensor) -> Tensor:
    """Copies numbers to fp32, in newly allocated memory."""
    return numbers.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
