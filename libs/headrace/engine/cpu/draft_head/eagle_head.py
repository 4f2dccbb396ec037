"""An EAGLE-3 draft head (Li et al., 2025) on the CPU kernels: one layer over the embedding of a token and the large
model's hidden states at the token before it. Implements the Protocol `DraftHead`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.draft_heads.eagle_config import EagleConfig
from headrace.engine.checkpoints.facts.layer_angles import layer_angles
from headrace.engine.cpu.draft_head.eagle_weights import EagleWeights
from headrace.engine.cpu.row_buffer import RowBuffer
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Function
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Layer, Model, Norm
from headrace.engine.memory.aligned import address
from headrace.engine.step.kernel_step import kernel_step
from headrace.engine.step.step_arrays import StepArrays

NEVER = -1e30
"""Logit of a token that is not drafted. It is finite: no token of a row of infinities is the most likely."""
Embed = Callable[[NDArray[np.int64]], Floats]
"""Returns the embeddings fp32 [tokens, hidden] of int64 [tokens]."""


class EagleHead:
    """A head with the keys and values of its layer, in blocks that have the numbers of the large model's."""

    def __init__(
        self,
        config: EagleConfig,
        weights: EagleWeights,
        context: KernelContext,
        embed: Embed,
        *,
        max_len: int,
        block_size: int,
        block_count: int,
        exact: bool,
    ) -> None:
        """`embed` looks up tokens, unless the head has an embedding of its own. `max_len` is the longest context in
        tokens. Unless `exact`, products also quantize their inputs."""
        layer = config.layer
        self.max_len = min(max_len, layer.max_model_length)
        self.vocabulary_size = layer.vocabulary_size
        self._config = config
        self._weights = weights
        self._context = context
        self._embed = embed if weights.embedding is None else weights.embedding.rows
        self._exact = exact
        self._buffers: dict[str, RowBuffer] = {}
        # As with products: what is not exact may only miss a draft token.
        storage = Storage.F32 if exact else Storage.S8
        shape = KvShape(1, layer.kv_head_count, layer.head_size, block_size, storage)
        self._arena = KvArena(shape, block_count)
        (self._angles,) = layer_angles(layer, self.max_len)
        self._layer = Layer(cosine=address(self._angles[0]), sine=address(self._angles[1]))
        self._model = Model(
            head_count=layer.head_count,
            kv_head_count=layer.kv_head_count,
            head_size=layer.head_size,
            rotary_size=layer.rotary_size,
            block_size=block_size,
            block_bytes=shape.block_bytes,
            block_count=block_count,
            position_count=self.max_len,
            kv_storage=shape.storage,
            scale=layer.attention_scale,
        )
        self._bind()

    @property
    def byte_count(self) -> int:
        """Memory of the keys and values, in bytes."""
        return self._arena.block_count * self._arena.shape.block_bytes

    def combine(self, states: Floats) -> Floats:
        """Maps hidden states [tokens, 3 x hidden] of the large model to the inputs [tokens, hidden] of the layer, valid
        until the next call."""
        return self._product("combined", self._weights.combination, np.ascontiguousarray(states))

    def compute(self, arrays: StepArrays, states: Floats) -> Floats:
        """Returns the hidden states [tokens, hidden] behind each token of a step, of which `states` [tokens, hidden]
        are those before it, valid until the next call. Writes the tokens' keys and values."""
        weights, size = self._weights, self._config.layer.hidden_size
        both = self._rows("both", arrays.token_count, 2 * size)
        both[:, :size] = self._normalized("embedded", weights.token_norm, self._embed(arrays.token_ids))
        both[:, size:] = normalized = self._normalized("normalized", weights.states_norm, states)
        attended = self._attend(arrays, self._product("projected", weights.qkv, both))
        residual = normalized if self._config.normalizes_residual else np.ascontiguousarray(states)
        hidden = self._product("hidden", weights.output, attended, residual)
        normed = self._normalized("normalized", weights.mlp_norm, hidden)
        gated = self._gated(self._product("gates", weights.gate_up, normed))
        return self._product("outputs", weights.down, gated, hidden)

    def logits(self, states: Floats) -> Floats:
        """Returns logits [rows, vocabulary] of the large model's tokens, valid until the next call. A token that the
        head never drafts has one that no draw chooses, unless a grammar leaves nothing else."""
        weights = self._weights
        found = self._product("drafted", weights.head, self._normalized("normalized", weights.final_norm, states))
        if weights.token_ids is None:
            return found
        logits = self._rows("logits", len(found), self.vocabulary_size)
        logits.fill(NEVER)
        logits[:, weights.token_ids] = found
        return logits

    def sleep(self) -> None:
        """Frees the memory of keys and values. Nothing can be computed until `wake`."""
        self._arena.release()

    def wake(self) -> None:
        """Allocates the memory of keys and values again, empty."""
        self._arena.allocate()
        self._bind()

    def _bind(self) -> None:
        places = self._arena.places(0)
        self._layer.keys, self._layer.values = places.keys, places.values
        self._layer.key_scales, self._layer.value_scales = places.key_scales, places.value_scales

    def _rows(self, name: str, count: int, size: int) -> Floats:
        """Returns rows [count, size] of any content, in the same memory in every step."""
        if name not in self._buffers:
            self._buffers[name] = RowBuffer(size)
        return self._buffers[name].rows(count)

    def _product(self, name: str, weight: PackedWeight, inputs: Floats, residual: Floats | None = None) -> Floats:
        outputs = self._rows(name, len(inputs), weight.out_size)
        places = (address(inputs), None if residual is None else address(residual), address(outputs))
        self._context.multiply(weight.matrix(exact=self._exact), *places, len(inputs))
        return outputs

    def _normalized(self, name: str, weight: Floats, rows: Floats) -> Floats:
        inputs, outputs = np.ascontiguousarray(rows), self._rows(name, *rows.shape)
        norm = Norm(address(weight), None, len(weight), self._config.layer.rms_norm_epsilon)
        self._context.normalize(norm, address(inputs), address(outputs), len(inputs))
        return outputs

    def _attend(self, arrays: StepArrays, projected: Floats) -> Floats:
        layer = self._config.layer
        outputs = self._rows("attended", len(projected), layer.head_count * layer.head_size)
        step = kernel_step(arrays)
        self._context.attend(self._model, self._layer, step, address(projected), address(outputs))
        return outputs

    def _gated(self, gates: Floats) -> Floats:
        shape = (len(gates), self._config.layer.intermediate_size)
        outputs = self._rows("gated", *shape)
        self._context.gate(Function.SILU, address(gates), address(outputs), shape)
        return outputs
