"""The runner of a model that several processes share, at the first of them."""

import weakref

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.kv.block_store import BlockStore
from headrace.engine.parallel.group import Group
from headrace.engine.parallel.stage_model import StageModel
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.step.step_logits import LogitRows, StepLogits
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.device.device_sampler import DeviceSampler


class GroupRunner:
    """Tells the others what to compute, and computes its own part. See the Protocol in `runner.py`."""

    def __init__(self, model: StageModel, group: Group, backend: Backend, blocks: BlockStore | None) -> None:
        """`blocks`: KV blocks of all ranks. None: they cannot be copied."""
        self.block_store = blocks
        self.sampler = DeviceSampler(backend.sampler, backend.device)
        self._model = model
        self._group = group
        self._operators = backend.operators
        weakref.finalize(self, _end, group, model)

    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks on all ranks, and returns the logits that the plan asks for. Raises InternalError if a
        rank is gone."""
        chunks = sorted(plan.chunks, key=lambda chunk: (chunk.token_count > 1, chunk.computed_end))
        wanted = LogitRows.of(chunks)
        arrays = StepArrays.of(chunks, wanted.rows)
        self._group.run(arrays)
        logits = self._model.run(arrays)
        return wanted.filled(self._operators.export(logits))

    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content cannot be trusted."""
        self._group.clear(blocks)
        self._model.clear(blocks)

    def sleep(self) -> None:
        """Frees the memory of the KV cache on all ranks. Nothing can run until `wake`."""
        self._group.sleep()
        self._model.sleep()

    def wake(self) -> None:
        """Allocates the KV cache again on all ranks, empty."""
        self._group.wake()
        self._model.wake()


def _end(group: Group, model: StageModel) -> None:
    group.close()
    model.close()
