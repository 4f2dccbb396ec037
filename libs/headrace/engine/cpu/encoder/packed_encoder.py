"""The weights of a CpuEncoder as its kernels read them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.cpu.weights.packed_weights import Table
from headrace.engine.kernels.packed_weight import PackedWeight

Floats = NDArray[np.float32]
NormWeights = tuple[Floats, Floats]
"""Weight and bias of a layer norm, both [hidden]."""


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """One layer: its matrices with their biases, and the norms after or before its two blocks."""

    qkv: PackedWeight
    output: PackedWeight
    up: PackedWeight
    down: PackedWeight
    attention_norm: NormWeights | None
    output_norm: NormWeights


@dataclass(frozen=True, slots=True)
class PackedEncoder:
    words: Table
    positions: Floats | None
    """Table of positions [positions, hidden], with the embedding of the first segment added, then the same with that of
    the second, if inputs have two. None: there is nothing to add."""
    embedding_norm: NormWeights
    final_norm: NormWeights | None
    """Norm of the last hidden states, if there is one."""
    layers: tuple[PackedLayer, ...]
    biases: Floats | None
    """Bias of each head at every distance [heads, distances], from the most negative distance on, with a vector of
    lanes beyond the last; None if attention has none."""
    parameter_count: int

    @property
    def byte_count(self) -> int:
        """Memory that the weights take, in bytes."""
        return int(self.words.numbers.nbytes) + sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> Iterator[NDArray[np.generic]]:
        yield from (array for array in (self.positions, self.biases) if array is not None)
        yield from (*self.embedding_norm, *(self.final_norm or ()))
        for layer in self.layers:
            for matrix in (layer.qkv, layer.output, layer.up, layer.down):
                yield matrix.panels
                yield from (array for array in (matrix.bias, matrix.order) if array is not None)
            yield from (*(layer.attention_norm or ()), *layer.output_norm)
