"""Steps of decodes as CUDA graphs: all kernels of a step are launched as one unit, instead of one by one."""

import numpy as np
import torch
from torch import Tensor

from headrace.engine.gpu.attention.triton_attention import TritonAttention
from headrace.engine.gpu.graphs.static_decodes import StaticDecodes, count_blocks, count_rows
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.step_tensors import StepTensors

Size = tuple[int, int]
"""Rows and blocks of each table."""


class DecodeGraphs:
    """Runs steps of decodes, padded to a few sizes, each of which is captured when it is first run. On a CPU the same
    is computed without a graph."""

    def __init__(self, model: Decoder, attention: TritonAttention, device: torch.device) -> None:
        self._model = model
        self._attention = attention
        self._device = device
        self._decodes: dict[Size, StaticDecodes] = {}
        self._graphs: dict[Size, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    @property
    def sizes(self) -> list[Size]:
        """Sizes that were run."""
        return list(self._decodes)

    def takes(self, arrays: StepArrays) -> bool:
        """Whether a step has decodes alone, each of which wants its logits, and no adapters."""
        is_plain = not arrays.adapters and 0 < arrays.token_count == arrays.span_count == arrays.logit_count
        return is_plain and bool((arrays.logit_rows == np.arange(arrays.token_count)).all())

    def run(self, arrays: StepArrays) -> Tensor:
        """Returns the logits [rows, vocabulary] of a step that it takes, valid until the next one."""
        size = count_rows(arrays.span_count), count_blocks(max(len(span.table) for span in arrays.split()))
        if size not in self._decodes:
            self._decodes[size] = StaticDecodes(*size, self._device)
        decodes = self._decodes[size]
        decodes.fill(arrays, self._attention.block_size)
        self._attention.use(decodes.step)
        logits = self._replay(size) if self._device.type == "cuda" else self._compute(decodes)
        return logits[: arrays.token_count]

    def forget(self) -> None:
        """Drops all graphs: they read and write memory that is about to be freed."""
        self._graphs.clear()
        self._decodes.clear()

    def _compute(self, decodes: StaticDecodes) -> Tensor:
        return self._model(StepTensors(decodes.token_ids, decodes.rows), self._attention)

    def _replay(self, size: Size) -> Tensor:
        if size not in self._graphs:
            self._graphs[size] = self._capture(self._decodes[size])
        graph, logits = self._graphs[size]
        graph.replay()
        return logits

    def _capture(self, decodes: StaticDecodes) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Captures a step after it has run once, which compiles its kernels: a capture allows no compiling."""
        current = torch.cuda.current_stream(self._device)
        stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self._compute(decodes)
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._compute(decodes)
        return graph, logits
