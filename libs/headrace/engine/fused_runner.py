"""Runs plans through a FusedDecoder. Owns the KV cache."""

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.context import KernelContext
from headrace.engine.kernels.cpu.kv_arena import KvArena
from headrace.engine.kernels.cpu.library import address
from headrace.engine.kernels.cpu.structures import Step
from headrace.engine.models.fused_decoder import FusedDecoder
from headrace.engine.step_logits import LogitRows, StepLogits
from headrace.engine.step_plan import StepPlan


class FusedRunner:
    """Lays the chunks of a step out for the kernels."""

    def __init__(self, decoder: FusedDecoder, arena: KvArena, context: KernelContext) -> None:
        self._decoder = decoder
        self._arena = arena
        self._context = context
        decoder.bind(arena)

    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan wants."""
        wanted = LogitRows.of(plan.chunks)
        token_ids: list[int] = []
        spans: list[int] = []
        tables: list[int] = []
        for chunk in plan.chunks:
            spans += (len(token_ids), chunk.token_count, chunk.start, len(tables))
            token_ids += chunk.token_ids
            tables += chunk.sequence.block_table
        inputs = [_tensor(values) for values in (token_ids, tables, spans, wanted.rows)]
        logits = torch.empty(len(wanted.rows), self._decoder.vocab_size)
        pointers = (*(address(values) for values in inputs), address(logits), None)
        step = Step(*pointers, len(token_ids), len(plan.chunks), len(wanted.rows))
        self._decoder.run(step, self._context)
        return wanted.filled(logits)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content is not to be trusted."""
        self._arena.clear(blocks)

    def sleep(self) -> None:
        """Gives the memory of the KV cache back. Nothing can be run until `wake`."""
        self._arena.release()

    def wake(self) -> None:
        """Takes memory for the KV cache again. It is empty."""
        self._arena.allocate()
        self._decoder.bind(self._arena)


def _tensor(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
