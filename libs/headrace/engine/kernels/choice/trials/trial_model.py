"""Decoders of one layer with random weights, on which whole steps of the kernels are tried before use."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.choice.trials.trial_weights import block_weight, coded_weight, plain_weight
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Function
from headrace.engine.kernels.packed_weight import PANEL, PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import FeedForward, Layer, Matrix, Model, Routing, Step, Update
from headrace.engine.memory.aligned import address

VOCABULARY, HIDDEN, INNER = 48, 64, 96
HEADS, KV_HEADS, HEAD = 4, 2, 16
BLOCK_SIZE, BLOCK_COUNT, WINDOW = 16, 4, 24
POSITIONS = BLOCK_SIZE * BLOCK_COUNT
EXPERTS, RANK, PRODUCTS, OUTPUT = 3, 5, 7, 3
"""Experts, the rank of the adapter, and what it may update and does."""
STEPS = (((0, 0, 19), (1, 0, 3)), ((0, 19, 1), (1, 3, 12)), ((0, 20, 1), (1, 15, 1)))
"""Spans of each step: a sequence, its first position, and its tokens. Sequences have every second block."""

Floats = NDArray[np.float32]


class TrialModel:
    """Weights and vectors, which the kernels' structures point to."""

    def __init__(self, generator: np.random.Generator) -> None:
        width, half = (HEADS + 2 * KV_HEADS) * HEAD, HEAD // 2
        shapes = ((width, HIDDEN), (HIDDEN, HEADS * HEAD), (2 * INNER, HIDDEN), (HIDDEN, INNER), (VOCABULARY, HIDDEN))
        storages = (Storage.U4, Storage.U8, Storage.U4, Storage.U8, Storage.U8)
        self._weights: list[PackedWeight] = [
            coded_weight(generator, shape, storage, 32).packed for shape, storage in zip(shapes, storages, strict=True)
        ]
        self._norms = generator.random((3, HIDDEN), np.float32)
        self._head_norms = generator.random((2, HEAD), np.float32)
        self._angles = generator.standard_normal((2, POSITIONS, half), np.float32)
        self._embedding = generator.standard_normal((VOCABULARY, HIDDEN), np.float32)
        self._block_embedding = block_weight(generator, (VOCABULARY, HIDDEN), Storage.Q4_1)
        self._biases = generator.standard_normal((HEADS, 2 * POSITIONS + PANEL), np.float32)
        self._router = plain_weight(generator, (EXPERTS, HIDDEN), Storage.BF16).packed
        self._shrink = plain_weight(generator, (RANK, HEADS * HEAD), Storage.F32).packed
        self._expand = generator.standard_normal((HIDDEN // PANEL * RANK, PANEL), np.float32)
        self._scales = generator.random(RANK, np.float32)
        self._sinks = generator.standard_normal(HEADS, np.float32)
        self._key_factors = np.exp2(np.arange(KV_HEADS * HEAD) % half % 3).astype(np.float32)
        self._starts, self._ranks = np.arange(HIDDEN // PANEL + 1) * RANK, np.zeros(HIDDEN // PANEL, np.int64)
        self._adapters = np.array([0, -1])
        self._token_ids = generator.integers(0, VOCABULARY, (2, POSITIONS))

    def run(self, context: KernelContext, storage: Storage) -> list[Floats]:
        """Computes the logits [tokens, vocabulary] of each of `STEPS`, with keys and values in `storage`."""
        arena = KvArena(KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, storage), BLOCK_COUNT)
        model = self._plain(arena, self._layer(arena))
        return [self._step(context, model, spans) for spans in STEPS]

    def run_headless(self, context: KernelContext) -> Floats:
        """Computes the normalized hidden states [tokens, hidden] of the first step."""
        arena = KvArena(KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, Storage.F32), BLOCK_COUNT)
        model = self._plain(arena, self._layer(arena))
        model.head = Matrix()
        return self._step(context, model, STEPS[0])

    def run_widest(self, context: KernelContext) -> list[Floats]:
        """Does as `run`, with all that families differ in: an embedding of blocks, experts, norms after blocks, caps,
        factors, an adapter."""
        arena = KvArena(KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, Storage.S8), BLOCK_COUNT)
        layer = self._layer(arena)
        layer.post_attention_norm, layer.post_mlp_norm = map(address, self._norms[:2])
        layer.key_factors = address(self._key_factors)
        layer.router, layer.experts = self._router.matrix(exact=False), (FeedForward * EXPERTS)(*[layer.mlp] * EXPERTS)
        model = self._plain(arena, layer)
        model.embedding = address(self._block_embedding.panels)
        model.embedding_storage = self._block_embedding.storage
        model.soft_cap, model.logit_soft_cap, model.activation = 5.0, 400.0, Function.GELU_TANH
        model.routing, model.adapter_count = Routing(EXPERTS, 2, normalizes=True), 1
        pointers = [address(self._scales), address(self._expand), address(self._starts), address(self._ranks)]
        updates = (Update * PRODUCTS)()
        updates[OUTPUT] = Update(self._shrink.matrix(exact=True), *pointers, Storage.F32)
        model.updates = updates
        return [self._step(context, model, spans, address(self._adapters)) for spans in STEPS]

    def run_bidirectional(self, context: KernelContext) -> Floats:
        """Computes the logits [tokens, vocabulary] of the first step, with biased scores, sinks, tokens that see those
        after them, gates that are clamped, and keys and values in fp16."""
        arena = KvArena(KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, Storage.F16), BLOCK_COUNT)
        layer = self._layer(arena)
        layer.window, layer.bias_stride, layer.sinks = 0, self._biases.shape[1], address(self._sinks)
        layer.bias = address(self._biases) + (POSITIONS - 1) * self._biases.itemsize
        model = self._plain(arena, layer)
        model.sees_all, model.activation = True, Function.CLAMPED_SWISH
        return self._step(context, model, STEPS[0])

    def _plain(self, arena: KvArena, layer: Layer) -> Model:
        return Model(
            layers=(Layer * 1)(layer),
            embedding=address(self._embedding),
            final_norm=address(self._norms[2]),
            head=self._weights[4].matrix(exact=False),
            layer_count=1,
            hidden=HIDDEN,
            vocabulary=VOCABULARY,
            head_count=HEADS,
            kv_head_count=KV_HEADS,
            head_size=HEAD,
            rotary_size=HEAD,
            block_size=BLOCK_SIZE,
            block_bytes=arena.block_bytes,
            block_count=BLOCK_COUNT,
            position_count=POSITIONS,
            embedding_storage=Storage.F32,
            kv_storage=arena.shape.storage,
            epsilon=1e-5,
            scale=HEAD**-0.5,
            embedding_scale=1.0,
        )

    def _layer(self, arena: KvArena) -> Layer:
        places, (cosine, sine) = arena.places(0), self._angles
        qkv, output, gate_up, down = (weight.matrix(exact=False) for weight in self._weights[:4])
        return Layer(
            attention_norm=address(self._norms[0]),
            mlp_norm=address(self._norms[1]),
            query_norm=address(self._head_norms[0]),
            key_norm=address(self._head_norms[1]),
            qkv=qkv,
            output=output,
            mlp=FeedForward(gate_up, down),
            cosine=address(cosine),
            sine=address(sine),
            window=WINDOW,
            keys=places.keys,
            values=places.values,
            key_scales=places.key_scales,
            value_scales=places.value_scales,
        )

    def _step(
        self, context: KernelContext, model: Model, spans: tuple[tuple[int, int, int], ...], adapters: int | None = None
    ) -> Floats:
        counts = [count for _, _, count in spans]
        token_ids = np.concatenate([self._token_ids[index, first : first + count] for index, first, count in spans])
        tables = np.concatenate([np.arange(index, BLOCK_COUNT, 2) for index, _, _ in spans])
        starts, places = np.cumsum([0, *counts]), np.arange(len(spans)) * (BLOCK_COUNT // 2)
        layout = np.array([(starts[at], counts[at], spans[at][1], places[at]) for at in range(len(spans))], np.int64)
        rows = np.arange(len(token_ids))
        logits = np.empty((len(rows), model.head.out or HIDDEN), np.float32)
        step = Step(
            token_ids=address(token_ids),
            tables=address(tables),
            spans=address(layout),
            logit_rows=address(rows),
            logits=address(logits),
            row_count=len(rows),
            span_count=len(spans),
            logit_count=len(rows),
            table_size=len(tables),
            adapters=adapters,
        )
        context.step(model, step, context.instructions)
        return logits
