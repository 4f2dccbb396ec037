"""An EAGLE-3 draft head (Li et al., 2025) on the CPU kernels: one layer over the embedding of a token and the large
model's hidden states at the token before it. Implements the Protocol `DraftHead`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.draft_heads.eagle_config import EagleConfig
from headrace.engine.checkpoints.facts.layer_angles import layer_angles
from headrace.engine.cpu.draft_head.eagle_weights import EagleWeights
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
        shape = KvShape(1, layer.kv_head_count, layer.head_size, block_size, Storage.F32)
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
        """Maps hidden states [tokens, 3 x hidden] of the large model to the inputs [tokens, hidden] of the layer."""
        return self._product(self._weights.combination, np.ascontiguousarray(states))

    def compute(self, arrays: StepArrays, states: Floats) -> Floats:
        """Returns the hidden states [tokens, hidden] behind each token of a step, of which `states` [tokens, hidden]
        are those before it. Writes the tokens' keys and values."""
        weights = self._weights
        embedded = self._normalized(weights.token_norm, self._embed(arrays.token_ids))
        normalized = self._normalized(weights.states_norm, states)
        projected = self._product(weights.qkv, np.concatenate([embedded, normalized], axis=1))
        residual = normalized if self._config.normalizes_residual else states
        hidden = self._product(weights.output, self._attend(arrays, projected), residual)
        gates = self._product(weights.gate_up, self._normalized(weights.mlp_norm, hidden))
        return self._product(weights.down, self._gated(gates), hidden)

    def logits(self, states: Floats) -> Floats:
        """Returns logits [rows, vocabulary] of the large model's tokens. A token that the head never drafts
        has one that no draw chooses, unless a grammar leaves nothing else."""
        weights = self._weights
        found = self._product(weights.head, self._normalized(weights.final_norm, states))
        if weights.token_ids is None:
            return found
        logits = np.full((len(found), self.vocabulary_size), NEVER, np.float32)
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

    def _product(self, weight: PackedWeight, inputs: Floats, residual: Floats | None = None) -> Floats:
        return self._context.product(weight, inputs, residual, exact=self._exact)

    def _normalized(self, weight: Floats, rows: Floats) -> Floats:
        inputs, outputs = np.ascontiguousarray(rows), np.empty(rows.shape, np.float32)
        norm = Norm(address(weight), None, len(weight), self._config.layer.rms_norm_epsilon)
        self._context.normalize(norm, address(inputs), address(outputs), len(inputs))
        return outputs

    def _attend(self, arrays: StepArrays, projected: Floats) -> Floats:
        layer = self._config.layer
        outputs = np.empty((len(projected), layer.head_count * layer.head_size), np.float32)
        step = kernel_step(arrays)
        self._context.attend(self._model, self._layer, step, address(projected), address(outputs))
        return outputs

    def _gated(self, gates: Floats) -> Floats:
        outputs = np.empty((len(gates), self._config.layer.intermediate_size), np.float32)
        self._context.gate(Function.SILU, address(gates), address(outputs), outputs.shape)
        return outputs
