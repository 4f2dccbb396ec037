"""Steps of decodes captured once and replayed: all kernels of a step are launched as one unit, not one by one."""

import bisect
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headrace.engine.gpu.attention.triton_attention import TritonAttention
from headrace.engine.gpu.graphs.static_decodes import StaticDecodes, list_sizes
from headrace.engine.gpu.graphs.step_capture import Computation, StepCapture
from headrace.engine.step.step_arrays import NO_STEP, StepArrays
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device.chosen_tokens import ChosenTokens


class DecodeGraphs:
    """Runs steps of decodes, padded to a few numbers of rows, whatever the lengths of their texts.

    All sizes are captured at once, before the first request, and the largest first: the others then fit the memory
    that it took.
    """

    def __init__(
        self,
        model: Decoder,
        attention: TritonAttention,
        capture: StepCapture,
        device: torch.device,
        *,
        max_row_count: int,
        max_block_count: int,
        chosen: ChosenTokens | None = None,
    ) -> None:
        """Makes graphs for up to `max_row_count` sequences, each of up to `max_block_count` blocks. Captures none.
        Where steps are launched, they read the tokens of the step before from `chosen`."""
        self._model = model
        self._attention = attention
        self._capture = capture
        self._device = device
        self._max_block_count = max_block_count
        self._chosen = chosen
        self._sizes = list_sizes(max_row_count)
        self._decodes: list[StaticDecodes] = []
        """Captured sizes, the smallest first."""
        self._replays: list[Computation] = []
        self._logits = torch.empty(0)

    @property
    def sizes(self) -> list[int]:
        """Numbers of rows that are captured."""
        return [decodes.row_count for decodes in self._decodes]

    @torch.inference_mode()
    def capture(self) -> None:
        """Captures a step of each size, over the KV cache as it lies now."""
        self._logits = torch.zeros((self._sizes[0], self._model.vocabulary_size), device=self._device)
        attention = self._attention
        for size in self._sizes:
            decodes = StaticDecodes(
                size, self._max_block_count, attention.block_size, attention.kv_head_count, self._device
            )
            decodes.fill(NO_STEP)
            self._decodes.insert(0, decodes)
            self._replays.insert(0, self._capture.capture(self._computation(decodes)))

    def takes(self, arrays: StepArrays) -> bool:
        """Whether a step has decodes alone, each of which wants its logits, and no adapters, and fits a size."""
        is_plain = not arrays.adapters and 0 < arrays.token_count == arrays.span_count == arrays.logit_count
        if not is_plain or not self._decodes or arrays.token_count > self._decodes[-1].row_count:
            return False
        is_ordered = bool((arrays.logit_rows == np.arange(arrays.token_count)).all())
        return is_ordered and self._decodes[self._place(arrays)].takes(arrays)

    def run(self, arrays: StepArrays) -> Tensor:
        """Returns the logits [rows, vocabulary] of a step that it takes, valid until the next one."""
        place = self._place(arrays)
        self._decodes[place].fill(arrays)
        self._replays[place]()
        return self._logits[: arrays.token_count]

    def forget(self) -> None:
        """Drops all graphs: they read and write memory that is about to be freed."""
        self._replays.clear()
        self._decodes.clear()
        self._logits = torch.empty(0)

    def _place(self, arrays: StepArrays) -> int:
        """Returns the place of the smallest size with enough rows."""
        return bisect.bisect_left(self.sizes, arrays.token_count)

    def _computation(self, decodes: StaticDecodes) -> Computation:
        logits = self._logits[: decodes.row_count]
        step = replace(decodes.step, chosen=self._chosen)

        def compute() -> None:
            self._attention.use(decodes.attended)
            logits.copy_(self._model(step, self._attention))

        return compute
