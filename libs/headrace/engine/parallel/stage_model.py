"""The part of a model that one rank computes, and its exchanges with the others."""

import numpy as np
import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.kv.block_store import BlockStore
from headrace.engine.parallel.collective import Collective
from headrace.engine.parallel.microbatches import Microbatch, split_step
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.adapters.adapter_set import AdapterSet
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device.device_block_store import DeviceBlockStore
from headrace.engine.torch.device.device_copy import to_device


class StageModel:
    """A rank's layers over its part of the KV cache."""

    def __init__(
        self,
        config: DecoderConfig,
        place: ShardPlace,
        decoder: Decoder,
        attention: PagedAttention,
        collective: Collective,
        dtype: torch.dtype,
        device: torch.device,
        adapters: AdapterSet | None,
    ) -> None:
        """`config`: of the whole model. `adapters`: this rank's part of them."""
        self._config = config
        self._place = place
        self._decoder = decoder
        self._attention = attention
        self._collective = collective
        self._dtype = dtype
        self._device = device
        self._adapters = adapters
        store: BlockStore | None = getattr(attention, "block_store", None)
        self.block_store = None if store is None else DeviceBlockStore(store, device)
        """This rank's part of KV blocks. None: they cannot be copied."""

    @torch.inference_mode()
    def run(self, arrays: StepArrays) -> Tensor:
        """Computes a step together with all other ranks, which run the same one. Returns logits fp32 [rows, vocabulary]
        at the last stage, none at others."""
        with on_device(self._device):
            parts = split_step(arrays, self._place.stage_count)
            if not self._place.ends:
                self._compute_and_send(parts)
                return torch.empty((0, self._config.vocabulary_size), device=self._device)
            found = [self._score(part) for part in parts]
            if len(found) == 1:
                return found[0]
            places = np.concatenate([np.array(part.logit_places, np.int64) for part in parts])
            scored = torch.cat(found)
            return torch.empty_like(scored).index_copy_(0, to_device(places, self._device), scored)

    def close(self) -> None:
        """Leaves the group. Nothing can run afterwards."""
        self._collective.close()

    @torch.inference_mode()
    def clear(self, blocks: list[int]) -> None:
        with on_device(self._device):
            self._attention.clear(blocks)

    def sleep(self) -> None:
        with on_device(self._device):
            self._attention.release()

    @torch.inference_mode()
    def wake(self) -> None:
        with on_device(self._device):
            self._attention.allocate()

    def _compute_and_send(self, parts: list[Microbatch]) -> None:
        """Computes a stage before the last, and waits until the next one has what it computed."""
        sent = []
        for part in parts:
            hidden = self._compute(part)
            sent.append((hidden, self._collective.send_on(hidden)))
        for _, work in sent:
            if work is not None:
                work.wait()

    def _score(self, part: Microbatch) -> Tensor:
        """Computes the last stage: logits fp32 [rows, vocabulary]."""
        return self._collective.join_columns(self._compute(part), self._config.vocabulary_size)

    def _compute(self, part: Microbatch) -> Tensor:
        arrays = part.arrays
        shape = (arrays.token_count, self._config.hidden_size)
        hidden = None if self._place.begins else self._collective.receive(shape, self._dtype)
        self._attention.begin(arrays)
        integers = to_device(np.concatenate([arrays.token_ids, arrays.logit_rows]), self._device)
        token_ids, logit_rows = integers[: arrays.token_count], integers[arrays.token_count :]
        adapters = self._adapters.rows_of(arrays) if self._adapters else None
        return self._decoder(StepTensors(token_ids, logit_rows, adapters, hidden=hidden), self._attention)
