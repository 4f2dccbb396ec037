"""A decoder of one layer with random weights, on which whole steps of the kernels are tried before use."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.choice.trial_weights import coded_weight
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import FeedForward, Layer, Model, Step
from headrace.engine.memory.aligned import address

VOCABULARY, HIDDEN, INNER = 48, 64, 96
HEADS, KV_HEADS, HEAD = 4, 2, 16
BLOCK_SIZE, BLOCK_COUNT, WINDOW = 16, 4, 24
STEPS = (((0, 0, 19), (1, 0, 3)), ((0, 19, 1), (1, 3, 12)), ((0, 20, 1), (1, 15, 1)))
"""Spans of each step: a sequence, its first position, and its tokens. Sequences have every second block."""

Floats = NDArray[np.float32]


class TrialModel:
    """Weights and vectors, which the kernels' structures point to."""

    def __init__(self, generator: np.random.Generator) -> None:
        width, half = (HEADS + 2 * KV_HEADS) * HEAD, HEAD // 2
        shapes = ((width, HIDDEN), (HIDDEN, HEADS * HEAD), (2 * INNER, HIDDEN), (HIDDEN, INNER), (VOCABULARY, HIDDEN))
        storages = (Storage.U4, Storage.S8, Storage.U4, Storage.S8, Storage.S8)
        self._weights: list[PackedWeight] = [
            coded_weight(generator, shape, storage, 32).packed for shape, storage in zip(shapes, storages, strict=True)
        ]
        self._norms = generator.random((3, HIDDEN), np.float32)
        self._head_norms = generator.random((2, HEAD), np.float32)
        self._angles = generator.standard_normal((2, BLOCK_SIZE * BLOCK_COUNT, half), np.float32)
        self._embedding = generator.standard_normal((VOCABULARY, HIDDEN), np.float32)
        self._token_ids = generator.integers(0, VOCABULARY, (2, BLOCK_SIZE * BLOCK_COUNT))

    def run(self, context: KernelContext, storage: Storage) -> list[Floats]:
        """Computes the logits [tokens, vocabulary] of each of `STEPS`, with keys and values in `storage`."""
        arena = KvArena(KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, storage), BLOCK_COUNT)
        layer = self._layer(arena)
        model = Model(
            (Layer * 1)(layer), address(self._embedding), address(self._norms[2]), self._weights[4].matrix(exact=False),
            1, HIDDEN, VOCABULARY, HEADS, KV_HEADS, HEAD, HEAD, BLOCK_SIZE, arena.block_bytes, BLOCK_COUNT,
            BLOCK_SIZE * BLOCK_COUNT, Storage.F32, storage, 1e-5, HEAD**-0.5, 1.0,
        )  # fmt: skip
        return [self._step(context, model, spans) for spans in STEPS]

    def _layer(self, arena: KvArena) -> Layer:
        places, (cosine, sine) = arena.places(0), self._angles
        qkv, output, gate_up, down = (weight.matrix(exact=False) for weight in self._weights[:4])
        layer = Layer(
            *map(address, (*self._norms[:2], *self._head_norms)),
            qkv=qkv,
            output=output,
            mlp=FeedForward(gate_up, down),
            cosine=address(cosine),
            sine=address(sine),
            window=WINDOW,
        )
        layer.keys, layer.values = places.keys, places.values
        layer.key_scales, layer.value_scales = places.key_scales, places.value_scales
        return layer

    def _step(self, context: KernelContext, model: Model, spans: tuple[tuple[int, int, int], ...]) -> Floats:
        counts = [count for _, _, count in spans]
        token_ids = np.concatenate([self._token_ids[index, first : first + count] for index, first, count in spans])
        tables = np.concatenate([np.arange(index, BLOCK_COUNT, 2) for index, _, _ in spans])
        starts, places = np.cumsum([0, *counts]), np.arange(len(spans)) * (BLOCK_COUNT // 2)
        layout = np.array([(starts[at], counts[at], spans[at][1], places[at]) for at in range(len(spans))], np.int64)
        rows = np.arange(len(token_ids))
        logits = np.empty((len(rows), VOCABULARY), np.float32)
        pointers = map(address, (token_ids, tables, layout, rows, logits))
        step = Step(*pointers, None, len(rows), len(spans), len(rows), len(tables))
        context.step(model, step, context.instructions)
        return logits
