"""Runs plans through a model on torch. Owns the KV cache."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.kv.block_store import BlockStore
from headrace.engine.step.auxiliary.auxiliary_states import AuxiliaryStates
from headrace.engine.step.launching.launched_step import LaunchedStep
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.step.step_logits import LogitRows, StepLogits
from headrace.engine.torch.adapters.adapter_set import AdapterSet
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.backends.step_graphs import StepGraphs
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.device.chosen_tokens import ChosenTokens
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device.device_block_store import DeviceBlockStore
from headrace.engine.torch.device.device_copy import to_device
from headrace.engine.torch.device.device_sampler import DeviceSampler
from headrace.engine.torch.device.device_weights import offload_weights
from headrace.engine.torch.launched_tokens import LaunchedTokens
from headrace.engine.torch.sampling.torch_sampler import TorchSampler


class TorchRunner:
    """Runs plans through one model."""

    def __init__(
        self,
        model: Decoder,
        attention: PagedAttention,
        backend: Backend,
        adapters: AdapterSet | None = None,
        graphs: StepGraphs | None = None,
        chosen: ChosenTokens | None = None,
    ) -> None:
        """Makes a runner of one model. Without `adapters`, ignores the adapters that requests choose. `graphs` compute
        the steps that they can, and read `chosen` where steps are launched."""
        self.offload = offload_weights((model, adapters), backend.device)
        self.sampler = DeviceSampler(backend.sampler, backend.device)
        store: BlockStore | None = getattr(attention, "block_store", None)
        self.block_store = None if store is None else DeviceBlockStore(store, backend.device)
        self._model = model
        self._attention = attention
        self._operators = backend.operators
        self._device = backend.device
        self._adapters = adapters
        self._graphs = graphs
        self._chosen = chosen
        self._auxiliary: AuxiliaryStates | None = None
        self._chooser = backend.sampler if isinstance(backend.sampler, TorchSampler) else TorchSampler()

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan asks for."""
        chunks = _in_order(plan)
        wanted, arrays = _lay_out(chunks)
        auxiliary = self._auxiliary
        states = None if auxiliary is None else auxiliary.rows(arrays.token_count)
        with on_device(self._device):
            logits = wanted.filled(self._operators.export(self._compute(arrays, states)))
        if auxiliary is not None and states is not None:
            auxiliary.receive(chunks, states)
        return logits

    def keep(self, states: AuxiliaryStates) -> None:
        """Hands the hidden states of each step on from now on, see HeadedRunner."""
        self._auxiliary = states

    @torch.inference_mode()
    def embed(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the rows fp32 [tokens, hidden] of the embedding table, see HeadedRunner."""
        rows: NDArray[np.float32] = self._model.embed(torch.from_numpy(token_ids)).float().numpy()
        return rows

    @torch.inference_mode()
    def score(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the logits [rows, vocabulary] of normalized hidden states, see HeadedRunner."""
        logits: NDArray[np.float32] = self._model.score(torch.from_numpy(states)).numpy()
        return logits

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> LaunchedStep:
        """Launches a step, see Launcher. The runner must have `chosen`."""
        wanted, arrays = _lay_out(_in_order(plan))
        with on_device(self._device):
            ids, peaks = self._chooser.choose(self._compute(arrays), [chunk.sequence for chunk in wanted.sampling])
            if self._chosen is not None:
                self._chosen.keep(ids)
            return LaunchedTokens.of(wanted.sampling, ids, peaks)

    @torch.inference_mode()
    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content cannot be trusted."""
        with on_device(self._device):
            self._attention.clear(blocks)

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Nothing can run until `wake`."""
        with on_device(self._device):
            if self._graphs is not None:
                self._graphs.forget()
            self._attention.release()

    @torch.inference_mode()
    def wake(self) -> None:
        """Allocates the KV cache again, empty."""
        with on_device(self._device):
            self._attention.allocate()
            if self._graphs is not None:
                self._graphs.capture()

    def _compute(self, arrays: StepArrays, states: NDArray[np.float32] | None = None) -> Tensor:
        if self._graphs is not None and self._graphs.takes(arrays):
            return self._graphs.run(arrays)
        self._attention.begin(arrays)
        return self._model(self._build(arrays, states), self._attention)

    def _build(self, arrays: StepArrays, states: NDArray[np.float32] | None) -> StepTensors:
        layers = () if self._auxiliary is None else tuple(self._auxiliary.layers.tolist())
        integers = to_device(np.concatenate([arrays.token_ids, arrays.logit_rows]), self._device)
        return StepTensors(
            token_ids=integers[: arrays.token_count],
            logit_rows=integers[arrays.token_count :],
            adapters=self._adapters.rows_of(arrays) if self._adapters else None,
            chosen=self._chosen,
            auxiliary=None if states is None else torch.from_numpy(states).view(len(states), len(layers), -1),
            auxiliary_layers=layers,
        )


def _in_order(plan: StepPlan) -> list[Chunk]:
    """Orders the chunks of a plan: decodes first, then the others, and early ends before late ones."""
    return sorted(plan.chunks, key=lambda chunk: (chunk.token_count > 1, chunk.computed_end))


def _lay_out(chunks: list[Chunk]) -> tuple[LogitRows, StepArrays]:
    wanted = LogitRows.of(chunks)
    return wanted, StepArrays.of(chunks, wanted.rows)
