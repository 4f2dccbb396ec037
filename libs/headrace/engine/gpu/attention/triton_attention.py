"""Attention through the kernels for GPUs, which write and read keys and values in place."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.gpu.attention.paged_states import PagedStates
from headrace.engine.gpu.attention.paged_step import PagedStep
from headrace.engine.step.step_arrays import NO_STEP, StepArrays
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.decode_attention import attend_decodes
from headrace.engine.triton.attention.prefill_attention import attend_spans
from headrace.engine.triton.attention.rotary_store import RotaryHeads, rotate_and_store
from headrace.engine.triton.split_sum import SplitRows


class TritonAttention:
    """Implements the Protocol of `paged_attention.py`. A token's bits do not depend on the batch, nor on the chunk
    that it comes in unless that is of one token: see `attend_spans`."""

    def __init__(
        self, heads: HeadShape, layers: Sequence[LayerAttention], states: PagedStates, device: torch.device
    ) -> None:
        self.block_count = states.block_count
        self._heads = heads
        self._states = self.block_store = states
        self._device = device
        self._rotary = _rotary_heads(heads, layers, device)
        self._rules = [AttentionRule(heads.scale, layer.window, heads.soft_cap, layer.sinks) for layer in layers]
        self._step = self._lay_out(NO_STEP)

    @property
    def byte_count(self) -> int:
        return self._states.byte_count

    def begin(self, arrays: StepArrays) -> None:
        self._step = self._lay_out(arrays)

    @property
    def block_size(self) -> int:
        """Tokens per KV block."""
        return self._states.block_size

    def use(self, step: PagedStep) -> None:
        """Has the tokens of a step attend next whose integers are on the device already."""
        self._step = step

    @property
    def kv_head_count(self) -> int:
        """Key and value heads of a layer."""
        return self._heads.kv_head_count

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        return self.attend_rows(layer, projected.contiguous())

    def attend_rows(self, layer: int, projected: Tensor | SplitRows) -> Tensor:
        """Attends as `attend` does, with rows that may still have to be summed."""
        pages, step, rule = self._states.layers[layer], self._step, self._rules[layer]
        queries = rotate_and_store(projected, self._rotary[layer], pages, step.positions, step.slots)
        outputs = []
        if step.decode_count:
            decodes = queries[: step.decode_count]
            outputs.append(attend_decodes(decodes, pages, step.work, rule))
        if len(step.row_blocks):
            others = queries[step.decode_count :]
            outputs.append(attend_spans(others, pages, step.work.tables, step.spans, step.row_blocks, rule))
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).flatten(1)

    def clear(self, blocks: list[int]) -> None:
        self._states.clear(blocks)

    def release(self) -> None:
        self._states.release()

    def allocate(self) -> None:
        self._states.allocate()

    def _lay_out(self, arrays: StepArrays) -> PagedStep:
        return PagedStep.of(arrays, self._states.block_size, self._heads, self._device)


def _rotary_heads(heads: HeadShape, layers: Sequence[LayerAttention], device: torch.device) -> list[RotaryHeads]:
    """Takes angles and norms to the device. Layers with the same angles share them."""
    tables: dict[int, tuple[Tensor, Tensor]] = {}
    for layer in layers:
        if id(layer.angles) not in tables:
            cosines, sines = (torch.from_numpy(part).to(device, torch.float32).contiguous() for part in layer.angles)
            tables[id(layer.angles)] = cosines, sines
    return [
        RotaryHeads(heads.head_count, *tables[id(layer.angles)], _norms(layer), heads.norm_epsilon, heads.norms_rotated)
        for layer in layers
    ]


def _norms(layer: LayerAttention) -> Tensor | None:
    if layer.query_norm is None or layer.key_norm is None:
        return None
    return torch.stack([layer.query_norm, layer.key_norm]).float()
