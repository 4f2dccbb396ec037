"""Attention of encoders through the CPU kernels."""

from array import array
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Layer, Model
from headrace.engine.memory.aligned import address
from headrace.engine.step.kernel_step import kernel_step
from headrace.engine.step.step_arrays import NO_STEP, StepArrays
from headrace.engine.torch.attention.kernel_attention import model_of, point_at
from headrace.engine.torch.attention.paged_attention import HeadShape
from headrace.engine.torch.layers.relative_bias import RelativeBias
from headrace.engine.torch.operators.floats import floats

BLOCK_SIZE = 64
LANES = 16


class KernelWholeAttention:
    """Implements the Protocol of `whole_attention.py` with the CPU kernels. Keys and values of a step lie in one
    layer's KV blocks, which the next layer overwrites."""

    def __init__(
        self,
        context: KernelContext,
        heads: HeadShape,
        bias: RelativeBias | None,
        max_len: int,
        window: int | None = None,
        angles: tuple[Floats, Floats] | None = None,
    ) -> None:
        """`max_len` is the longest input in tokens, `window` the number of tokens on either side that a query sees,
        itself included, and `angles` are cosines and sines [positions, rotary/2], if heads rotate."""
        self._context = context
        self._max_len = max_len
        self._heads = heads
        self._angles = angles
        self._layer = Layer(window=window or 0)
        if angles is not None:
            self._layer.cosine, self._layer.sine = map(address, angles)
        self._biases = None if bias is None else self._spread(bias, max_len)
        self._arena = self._room(1)
        self._model = Model()
        self._arrays = NO_STEP
        self._step = kernel_step(NO_STEP)

    def begin(self, lengths: Sequence[int]) -> None:
        spans, tables = array("q"), array("q")
        first = 0
        for length in lengths:
            spans.extend((first, length, 0, len(tables)))
            tables.extend(range(len(tables), len(tables) - -length // BLOCK_SIZE))
            first += length
        if len(tables) > self._arena.block_count:
            self._arena = self._room(len(tables))
        point_at(self._layer, self._arena, 0)
        self._model = model_of(self._heads, self._arena, self._max_len, sees_all=True)
        self._arrays = StepArrays(array("q", bytes(8 * first)), tables, spans, array("q"))
        self._step = kernel_step(self._arrays)

    def attend(self, projected: Tensor) -> Tensor:
        numbers = floats(projected)
        outputs = torch.empty(len(numbers), self._heads.head_count * self._heads.head_size)
        self._context.attend(self._model, self._layer, self._step, numbers.data_ptr(), outputs.data_ptr())
        return outputs.to(projected.dtype)

    def _room(self, block_count: int) -> KvArena:
        shape = KvShape(1, self._heads.head_count, self._heads.head_size, BLOCK_SIZE, Storage.F32)
        return KvArena(shape, block_count)

    def _spread(self, bias: RelativeBias, max_len: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        """Returns the bias of each head at every distance, padded to whole lanes: [heads, distances]."""
        biases = floats(bias.at_distances(torch.arange(1 - max_len, max_len + LANES))).numpy()
        self._layer.bias = address(biases) + (max_len - 1) * biases.itemsize
        self._layer.bias_stride = biases.shape[1]
        return biases
