"""Attention through the CPU kernels, which read keys and values in place."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena
from headrace.engine.kernels.structures import Layer, Model
from headrace.engine.memory.aligned import address
from headrace.engine.step.kernel_step import kernel_step
from headrace.engine.step.step_arrays import NO_STEP, StepArrays
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.torch.operators.floats import floats


class KernelPagedAttention:
    """Implements the Protocol of `paged_attention.py` with the CPU kernels. A token's result depends only on its
    sequence."""

    def __init__(
        self, context: KernelContext, heads: HeadShape, layers: Sequence[LayerAttention], arena: KvArena
    ) -> None:
        self.block_count = arena.block_count
        self._context = context
        self._arena = self.block_store = arena
        self._norms = [[None if norm is None else floats(norm) for norm in norms_of(layer)] for layer in layers]
        self._angles = [layer.angles for layer in layers]
        self._sinks = [layer.sinks for layer in layers]
        self._layers = [self._layer(index, layer) for index, layer in enumerate(layers)]
        self._model = model_of(heads, arena, min(len(cosine) for cosine, _ in self._angles))
        self._width = heads.head_count * heads.head_size
        self._arrays = NO_STEP
        self._step = kernel_step(NO_STEP)
        self._point_at_memory()

    @property
    def byte_count(self) -> int:
        return self.block_count * self._arena.shape.block_bytes

    def begin(self, arrays: StepArrays) -> None:
        self._arrays = arrays
        self._step = kernel_step(arrays)

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        numbers = floats(projected)
        outputs = torch.empty(len(numbers), self._width)
        self._context.attend(self._model, self._layers[layer], self._step, numbers.data_ptr(), outputs.data_ptr())
        return outputs.to(projected.dtype)

    def clear(self, blocks: list[int]) -> None:
        self._arena.clear(blocks)

    def release(self) -> None:
        self._arena.release()

    def allocate(self) -> None:
        self._arena.allocate()
        self._point_at_memory()

    def _layer(self, index: int, layer: LayerAttention) -> Layer:
        query_norm, key_norm = self._norms[index]
        cosine, sine = layer.angles
        sinks = self._sinks[index]
        return Layer(
            query_norm=None if query_norm is None else query_norm.data_ptr(),
            key_norm=None if key_norm is None else key_norm.data_ptr(),
            cosine=address(cosine),
            sine=address(sine),
            window=layer.window or 0,
            sinks=None if sinks is None else sinks.data_ptr(),
        )

    def _point_at_memory(self) -> None:
        for index, layer in enumerate(self._layers):
            point_at(layer, self._arena, index)


def norms_of(layer: LayerAttention) -> tuple[Tensor | None, Tensor | None]:
    return layer.query_norm, layer.key_norm


def model_of(heads: HeadShape, arena: KvArena, position_count: int, *, sees_all: bool = False) -> Model:
    """Fills the fields of a model that attention needs. `position_count` is the length of its angles or biases."""
    return Model(
        head_count=heads.head_count,
        kv_head_count=heads.kv_head_count,
        head_size=heads.head_size,
        rotary_size=heads.rotary_size,
        block_size=arena.shape.block_size,
        block_bytes=arena.shape.block_bytes,
        block_count=arena.block_count,
        position_count=position_count,
        kv_storage=arena.shape.storage,
        epsilon=heads.norm_epsilon,
        scale=heads.scale,
        soft_cap=heads.soft_cap or 0.0,
        sees_all=sees_all,
        norms_rotated=heads.norms_rotated,
    )


def point_at(layer: Layer, arena: KvArena, index: int) -> None:
    """Sets where the keys and values of a layer are stored from now on."""
    places = arena.places(index)
    layer.keys, layer.values = places.keys, places.values
    layer.key_scales, layer.value_scales = places.key_scales, places.value_scales
