"""Keys and values of one layer."""

import torch
from torch import Tensor

from headrace.engine.torch.kv.gather_buffer import GatherBuffer


class KvLayer:
    """Keys and values of one layer: [2, kv heads, blocks, block size, head]. A head's block is contiguous."""

    def __init__(self, states: Tensor, buffer: GatherBuffer) -> None:
        self.states = states
        self._buffer = buffer
        self.kv_head_count = states.shape[1]
        self._tokens = states.view(-1, states.shape[-1])
        self._blocks = states.view(-1, states.shape[-1] * states.shape[-2])

    def write(self, rows: Tensor, states: Tensor) -> None:
        """Stores `states` [tokens, 2 x kv heads, head], keys before values, at `rows`: see `KvCache.token_rows`."""
        self._tokens.index_copy_(0, rows, states.reshape(-1, states.shape[-1]))

    def gather(self, rows: Tensor, sequence_count: int) -> tuple[Tensor, Tensor]:
        """Returns keys and values [sequences x kv heads, keys, head] of the blocks `rows`: see `KvCache.block_rows`.

        They are valid until the next call for any layer of the same cache.
        """
        gathered = torch.index_select(self._blocks, 0, rows, out=self._buffer.take(len(rows)))
        keys, values = gathered.view(2, sequence_count * self.kv_head_count, -1, self._tokens.shape[-1]).unbind()
        return keys, values
