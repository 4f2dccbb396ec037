"""A decoder whose tokens see all others, as an encoder: each batch is one call of the kernels."""

from array import array
from collections.abc import Sequence

import numpy as np

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.cpu.encoder.packed_encoder import Floats
from headrace.engine.cpu.load import PreparedDecoder
from headrace.engine.cpu.row_buffer import RowBuffer
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import address
from headrace.engine.step.kernel_step import kernel_step
from headrace.engine.step.step_arrays import StepArrays

BLOCK_SIZE = 64


class WholeDecoder:
    """Implements the Protocol of `encoder.py`. Keys and values of a batch lie in one layer's KV blocks, which the next
    layer overwrites."""

    def __init__(self, config: DecoderConfig, prepared: PreparedDecoder) -> None:
        self._prepared = prepared
        self._shape = KvShape(1, config.kv_head_count, config.head_size, BLOCK_SIZE, Storage.F32)
        self._arena = self._room(1)
        self._hidden = RowBuffer(config.hidden_size)

    def __call__(self, inputs: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Computes the final hidden states, fp32 [tokens, hidden], of each input, which has at least one token, in
        memory that the next call overwrites. They depend on their own input alone. Raises IndexError for token ids and
        lengths that the model does not take, and MemoryError."""
        token_ids, tables, spans = array("q"), array("q"), array("q")
        for tokens in inputs:
            spans.extend((len(token_ids), len(tokens), 0, len(tables)))
            tables.extend(range(len(tables), len(tables) - -len(tokens) // BLOCK_SIZE))
            token_ids.extend(tokens)
        if len(tables) > self._arena.block_count:
            self._arena = self._room(len(tables))
        hidden = self._hidden.rows(len(token_ids))
        arrays = StepArrays(token_ids, tables, spans, array("q", range(len(token_ids))))
        step = kernel_step(arrays, address(hidden))
        self._prepared.decoder.compute(step, self._prepared.context, self._prepared.kernels.for_rows(len(token_ids)))
        return np.split(hidden, np.cumsum([len(tokens) for tokens in inputs])[:-1])

    def _room(self, block_count: int) -> KvArena:
        arena = KvArena(self._shape, block_count)
        self._prepared.decoder.bind(arena)
        return arena
