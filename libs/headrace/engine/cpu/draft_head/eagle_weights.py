"""Weights of an EAGLE-3 draft head, packed for the CPU kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.draft_heads.eagle_config import LAYER_COUNT, EagleConfig
from headrace.engine.checkpoints.packing.array_packing import narrowed, pack_array
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.weights.quantized_arrays import Floats
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.checkpoints.weights.weight_rounding import GROUP_SIZES
from headrace.engine.cpu.weights.packed_weights import Table
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.errors.tree import InvalidCheckpoint

BITS = 8
"""Bits that the matrices are rounded to: it changes which tokens are drafted, and never which are chosen."""
_EMBEDDING, _TARGETS = "embed_tokens", "d2t"


@dataclass(frozen=True, slots=True)
class EagleWeights:
    combination: PackedWeight
    """Maps hidden states of three layers to one."""
    token_norm: Floats
    states_norm: Floats
    qkv: PackedWeight
    """Query, key and value projections of a token's embedding and the hidden state before it."""
    output: PackedWeight
    mlp_norm: Floats
    gate_up: PackedWeight
    down: PackedWeight
    final_norm: Floats
    head: PackedWeight
    token_ids: NDArray[np.int64] | None
    """Id of the large model's token for each row of the head. None: they are the same."""
    embedding: Table | None
    """Embedding of the large model's vocabulary. None: that of the large model is meant."""

    @property
    def byte_count(self) -> int:
        """Memory that the weights take, in bytes."""
        packed = sum(weight.byte_count for weight in self._matrices)
        return packed + (0 if self.embedding is None else int(self.embedding.numbers.nbytes))

    @property
    def _matrices(self) -> tuple[PackedWeight, ...]:
        return self.combination, self.qkv, self.output, self.gate_up, self.down, self.head


def read_eagle_weights(folder: Path, config: EagleConfig, *, exact: bool) -> EagleWeights:
    """Reads and packs the weights in a folder. Unless `exact`, rounds matrices to 8 bits. Raises InvalidCheckpoint."""
    return _Reader(SafetensorsArrays(folder), config, exact=exact).read()


class _Reader:
    def __init__(self, tensors: SafetensorsArrays, config: EagleConfig, *, exact: bool) -> None:
        self._tensors = tensors
        self._config = config
        self._bits = None if exact else BITS
        self._layer = "midlayer" if "midlayer.hidden_norm.weight" in tensors else "layers.0"

    def read(self) -> EagleWeights:
        layer, size = self._config.layer, self._config.layer.hidden_size
        heads, kv_heads = layer.head_count * layer.head_size, layer.kv_head_count * layer.head_size
        sizes = {"q_proj": heads, "k_proj": kv_heads, "v_proj": kv_heads}
        qkv = [(self._in_layer(f"self_attn.{name}"), count) for name, count in sizes.items()]
        gate_up = [(self._in_layer(f"mlp.{name}"), layer.intermediate_size) for name in ("gate_proj", "up_proj")]
        return EagleWeights(
            self._matrix([("fc", size)], LAYER_COUNT * self._config.states_size),
            self._norm(self._in_layer("input_layernorm")),
            self._norm(self._in_layer("hidden_norm")),
            self._matrix(qkv, 2 * size),
            self._matrix([(self._in_layer("self_attn.o_proj"), size)], heads),
            self._norm(self._in_layer("post_attention_layernorm")),
            self._matrix(gate_up, size),
            self._matrix([(self._in_layer("mlp.down_proj"), size)], layer.intermediate_size),
            self._norm("norm"),
            self._matrix([("lm_head", self._config.vocabulary_size)], size),
            self._token_ids(),
            self._embedding(),
        )

    def _in_layer(self, name: str) -> str:
        return f"{self._layer}.{name}"

    def _norm(self, name: str) -> Floats:
        return np.array(self._tensors.values(f"{name}.weight", (self._config.layer.hidden_size,)))

    def _matrix(self, modules: Sequence[tuple[str, int]], in_size: int) -> PackedWeight:
        """Packs the weights [., in] of modules, one below the other."""
        group = next((count for count in GROUP_SIZES if in_size % count == 0), None)
        stored = [self._tensors.stored(f"{name}.weight", (count, in_size)) for name, count in modules]
        if len({storage for _, storage in stored}) > 1:
            raise InvalidCheckpoint(f"the weights of {', '.join(name for name, _ in modules)} differ in their types")
        bits = None if group is None else self._bits
        parts = tuple(numbers for numbers, _ in stored)
        return pack_array(StoredArrays(parts, stored[0][1], bits, 0 if bits is None else group or 0))

    def _token_ids(self) -> NDArray[np.int64] | None:
        """Reads the distance from each row of the head to the id of its token. Raises InvalidCheckpoint if one is
        beyond the vocabulary."""
        count, most = self._config.vocabulary_size, self._config.layer.vocabulary_size
        if _TARGETS not in self._tensors:
            if count < most:
                raise InvalidCheckpoint(
                    f"the draft head has {count} of {most} tokens, and no {_TARGETS} that names them"
                )
            return None
        distances = self._tensors.array(_TARGETS)
        if distances.shape != (count,):
            raise InvalidCheckpoint(
                f"tensor {_TARGETS} has shape {distances.shape}, but config.json implies ({count},)"
            )
        token_ids = np.arange(count) + distances.astype(np.int64)
        if token_ids.min() < 0 or token_ids.max() >= most or len(np.unique(token_ids)) < count:
            raise InvalidCheckpoint(f"tensor {_TARGETS} does not name {count} different tokens of {most}")
        return token_ids

    def _embedding(self) -> Table | None:
        name = f"{_EMBEDDING}.weight"
        if name not in self._tensors:
            return None
        shape = (self._config.layer.vocabulary_size, self._config.layer.hidden_size)
        numbers, storage = self._tensors.stored(name, shape)
        return Table(*narrowed(StoredArrays((numbers,), storage)))
