"""The part of a model that one rank computes, and its exchanges with the others."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.parallel.collective import Collective
from headrace.engine.parallel.microbatches import Microbatch, split_step
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.step_tensors import StepTensors


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
    ) -> None:
        """`config`: of the whole model."""
        self._config = config
        self._place = place
        self._decoder = decoder
        self._attention = attention
        self._collective = collective
        self._dtype = dtype
        self._device = device

    @torch.inference_mode()
    def run(self, arrays: StepArrays) -> Tensor:
        """Computes a step together with all other ranks, which run the same one. Returns logits fp32 [rows, vocabulary]
        at the last stage, none at others."""
        sent = []
        logits = torch.empty(
            (arrays.logit_count if self._place.ends else 0, self._config.vocabulary_size), device=self._device
        )
        for part in split_step(arrays, self._place.stage_count):
            result = self._compute(part)
            if self._place.ends:
                found = self._collective.join_columns(result, self._config.vocabulary_size)
                logits[list(part.logit_places)] = found
            else:
                sent.append((result, self._collective.send_on(result)))
        for _, work in sent:
            if work is not None:
                work.wait()
        return logits

    def close(self) -> None:
        """Leaves the group. Nothing can run afterwards."""
        self._collective.close()

    @torch.inference_mode()
    def clear(self, blocks: list[int]) -> None:
        self._attention.clear(blocks)

    def sleep(self) -> None:
        self._attention.release()

    @torch.inference_mode()
    def wake(self) -> None:
        self._attention.allocate()

    def _compute(self, part: Microbatch) -> Tensor:
        arrays = part.arrays
        shape = (arrays.token_count, self._config.hidden_size)
        hidden = None if self._place.begins else self._collective.receive(shape, self._dtype)
        self._attention.begin(arrays)
        step = StepTensors(
            token_ids=torch.from_numpy(arrays.token_ids).to(self._device),
            logit_rows=torch.from_numpy(arrays.logit_rows).to(self._device),
            hidden=hidden,
        )
        return self._decoder(step, self._attention)
