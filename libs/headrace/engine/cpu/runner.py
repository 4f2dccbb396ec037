"""Runs plans through a CpuDecoder. Owns the KV cache."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.cpu.adapters.packed_adapters import PackedAdapters
from headrace.engine.cpu.decoder import CpuDecoder
from headrace.engine.cpu.row_buffer import RowBuffer
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.kv_arena import KvArena
from headrace.engine.kernels.structures import Step
from headrace.engine.memory.aligned import address
from headrace.engine.step.auxiliary.auxiliary_states import AuxiliaryStates
from headrace.engine.step.cpu_sampler import CpuSampler
from headrace.engine.step.kernel_step import kernel_step
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.step.step_logits import LogitRows, StepLogits


class CpuRunner:
    """Lays out the chunks of a step for the kernels."""

    def __init__(
        self,
        decoder: CpuDecoder,
        arena: KvArena,
        context: KernelContext,
        kernels: KernelChoice,
        adapters: PackedAdapters | None = None,
    ) -> None:
        self.sampler = CpuSampler(context)
        self._decoder = decoder
        self._arena = self.block_store = arena
        self._context = context
        self._kernels = kernels
        self._adapters = adapters
        self._results = RowBuffer(decoder.result_size)
        self._auxiliary: AuxiliaryStates | None = None
        decoder.bind(arena)

    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan wants, or without a head the hidden
        states, valid until the next call."""
        wanted = LogitRows.of(plan.chunks)
        arrays = StepArrays.of(plan.chunks, wanted.rows)
        results = self._results.rows(len(wanted.rows))
        step = kernel_step(arrays, address(results))
        # A draft model has no adapters, and drafts without them.
        if self._adapters is not None and arrays.adapters:
            numbers = self._adapters.numbers_of(arrays.adapters)
            step.adapters = address(numbers)
        self._compute(step, plan)
        return wanted.filled(results)

    def keep(self, states: AuxiliaryStates) -> None:
        """Hands the hidden states of each step on from now on, see HeadedRunner."""
        self._auxiliary = states

    def embed(self, token_ids: NDArray[np.int64]) -> Floats:
        """Returns the rows fp32 [tokens, hidden] of the embedding table, see HeadedRunner."""
        return self._decoder.embed(token_ids)

    def score(self, states: Floats) -> Floats:
        """Returns the logits [rows, vocabulary] of normalized hidden states, see HeadedRunner."""
        return self._decoder.score(states, self._context)

    def _compute(self, step: Step, plan: StepPlan) -> None:
        kernels = self._kernels.for_rows(step.row_count)
        auxiliary = self._auxiliary
        if auxiliary is None:
            self._decoder.compute(step, self._context, kernels)
            return
        states = auxiliary.rows(step.row_count)
        step.auxiliary, step.auxiliary_layers = address(states), address(auxiliary.layers)
        step.auxiliary_count = len(auxiliary.layers)
        self._decoder.compute(step, self._context, kernels)
        auxiliary.receive(plan.chunks, states)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content cannot be trusted."""
        self._arena.clear(blocks)

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Nothing can run until `wake`."""
        self._arena.release()

    def wake(self) -> None:
        """Allocates the KV cache again, empty."""
        self._arena.allocate()
        self._decoder.bind(self._arena)
